#include "fabric/endpoint.h"

#include <rdma/fi_cm.h>

#include <utility>

#include "fabric/address.h"
#include "fabric/advice.h"

namespace keyferry::fabric {

namespace {
/// A server has one address a fabric service; no machine has this many NICs. What a reply says must not make memory
/// grow.
constexpr std::size_t kMostPeers = 1024;
}  // namespace

base::Result<std::unique_ptr<TargetEndpoint>> TargetEndpoint::open(Domain& domain) {
  std::unique_ptr<TargetEndpoint> self(new TargetEndpoint(domain));
  const auto failed = [&](const char* call, int code) {
    return base::Error{"keyferry: can't make a fabric endpoint on " + std::string(domain.info().domain_attr->name) +
                           ": " + domain.library().error_text(call, code) + endpoint_advice(code),
                       code};
  };
  fi_av_attr attributes{};
  attributes.type = FI_AV_MAP;
  if (const int code = fi_av_open(domain.domain(), &attributes, self->book_.receive(), nullptr); code != 0)
    return failed("fi_av_open", code);
  if (const int code = fi_endpoint(domain.domain(), &domain.info(), self->endpoint_.receive(), nullptr); code != 0)
    return failed("fi_endpoint", code);
  fid_ep* const endpoint = self->endpoint_.get();
  if (const int code = fi_ep_bind(endpoint, &self->book_.get()->fid, 0); code != 0) return failed("fi_ep_bind", code);
  if (const int code = fi_ep_bind(endpoint, &domain.queue()->fid, FI_TRANSMIT | FI_RECV); code != 0)
    return failed("fi_ep_bind", code);
  if (const int code = fi_enable(endpoint); code != 0) return failed("fi_enable", code);
  if (base::Result<void> named = self->read_name(); !named) return named.error();
  return self;
}

base::Result<void> TargetEndpoint::read_name() {
  std::size_t length = 0;
  int code = fi_getname(&endpoint_.get()->fid, nullptr, &length);
  if (code == 0 || code == -FI_ETOOSMALL) {
    address_.resize(length);
    code = fi_getname(&endpoint_.get()->fid, address_.data(), &length);
  }
  if (code != 0)
    return base::Error{
        "keyferry: can't read a fabric endpoint's name: " + domain_.library().error_text("fi_getname", code), code};
  address_.resize(length);
  if (unreachable(address_, domain_.info().addr_format)) {
    return base::Error{
        "keyferry: the fabric endpoint is bound to the wildcard address, which no server can reach; set fabric.bind or "
        "fabric.interfaces"};
  }
  return {};
}

base::Result<void> TargetEndpoint::insert(const std::vector<std::string>& addresses) {
  if (spoilt_)
    return base::Error{"keyferry: this endpoint's address book was spoilt by a refused address; close the endpoint"};
  if (addresses.empty()) return base::Error{"keyferry: the server named no fabric address"};
  if (addresses.size() + peers_.size() > kMostPeers) {
    return base::Error{"keyferry: the server named " + std::to_string(addresses.size()) +
                       " fabric addresses, more than " + std::to_string(kMostPeers)};
  }
  for (const std::string& address : addresses) {
    if (std::string wrong = address_mismatch(address, address_, domain_.info().addr_format); !wrong.empty())
      return base::Error{std::move(wrong)};
  }
  const std::size_t before = peers_.size();
  for (const std::string& address : addresses) {
    fi_addr_t peer = FI_ADDR_UNSPEC;
    const int code = fi_av_insert(book_.get(), address.data(), 1, &peer, 0, nullptr);
    if (code == 1) {
      peers_.push_back(peer);
      continue;
    }
    spoilt_ = true;
    if (peers_.size() > before)
      static_cast<void>(fi_av_remove(book_.get(), peers_.data() + before, peers_.size() - before, 0));
    peers_.resize(before);
    const int cause = code < 0 ? code : -FI_EINVAL;
    return base::Error{
        "keyferry: a server's fabric address was refused: " + domain_.library().error_text("fi_av_insert", cause),
        cause};
  }
  return {};
}

base::Result<void> TargetEndpoint::close() {
  peers_.clear();
  if (AcceptedSockets* const accepted = domain_.accepted()) accepted->close_unread(address_);
  const char* call = "fi_close(endpoint)";
  int code = endpoint_.close();
  if (code == 0) {
    call = "fi_close(address book)";
    code = book_.close();
  } else {
    // The endpoint may still use it.
    book_.release();
  }
  if (code == 0) return {};
  domain_.abandon();
  return base::Error{"keyferry: can't close a fabric endpoint, what was lent through it is lost: " +
                         domain_.library().error_text(call, code),
                     code};
}

}  // namespace keyferry::fabric
