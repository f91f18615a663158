#include "tests/unit/fabric/initiator.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <sys/socket.h>

#include <cstddef>
#include <stdexcept>

#include "fabric/provider.h"

namespace keyferry::test {

namespace {
void check(const char* call, ssize_t code) {
  if (code < 0) throw std::runtime_error(std::string("initiator: ") + call + " gave " + std::to_string(code));
}
}  // namespace

Initiator::Initiator(const std::string& library) {
  const auto loaded = fabric::Library::load(library);
  fabric::FabricOptions options;
  options.provider = "software";
  options.interfaces = {"lo"};
  options.family = AF_INET;
  info_ = std::move(fabric::choose_provider(loaded, options).info);
  check("fi_fabric", loaded->open(info_->fabric_attr, fabric_.receive()));
  check("fi_domain", fi_domain(fabric_.get(), info_.get(), domain_.receive(), nullptr));
  fi_av_attr book{};
  book.type = FI_AV_MAP;
  check("fi_av_open", fi_av_open(domain_.get(), &book, book_.receive(), nullptr));
  fi_cq_attr queue{};
  queue.format = FI_CQ_FORMAT_CONTEXT;
  queue.wait_obj = FI_WAIT_NONE;
  check("fi_cq_open", fi_cq_open(domain_.get(), &queue, queue_.receive(), nullptr));
  check("fi_endpoint", fi_endpoint(domain_.get(), info_.get(), endpoint_.receive(), nullptr));
  check("fi_ep_bind", fi_ep_bind(endpoint_.get(), &book_.get()->fid, 0));
  check("fi_ep_bind", fi_ep_bind(endpoint_.get(), &queue_.get()->fid, FI_TRANSMIT | FI_RECV));
  check("fi_enable", fi_enable(endpoint_.get()));
  std::size_t length = 64;
  address_.resize(length);
  check("fi_getname", fi_getname(&endpoint_.get()->fid, address_.data(), &length));
  address_.resize(length);
}

Initiator::~Initiator() {
  static_cast<void>(endpoint_.close());
  static_cast<void>(queue_.close());
  static_cast<void>(book_.close());
  static_cast<void>(domain_.close());
  static_cast<void>(fabric_.close());
}

fi_addr_t Initiator::add_peer(const std::string& address) {
  fi_addr_t peer = FI_ADDR_UNSPEC;
  if (fi_av_insert(book_.get(), address.data(), 1, &peer, 0, nullptr) != 1)
    throw std::runtime_error("initiator: fi_av_insert refused an address");
  return peer;
}

void Initiator::knock(fi_addr_t peer) {
  std::byte byte{};
  Piece piece;
  if (post(peer, {0, 0, {&byte, 1}}, true, piece) == 0) {
    while (!piece.done) poll();
  }
  poll();
}

ssize_t Initiator::post(fi_addr_t peer, const Window& window, bool write, Piece& piece) {
  if (!write)
    return fi_read(endpoint_.get(), window.local.data(), window.local.size(), nullptr, peer, window.addr, window.rkey,
                   &piece.context);
  const iovec local{window.local.data(), window.local.size()};
  const fi_rma_iov remote{window.addr, window.local.size(), window.rkey};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.iov_count = 1;
  message.addr = peer;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &piece.context;
  return fi_writemsg(endpoint_.get(), &message, FI_DELIVERY_COMPLETE);
}

int Initiator::transfer(fi_addr_t peer, const std::vector<Window>& pieces, bool write) {
  std::vector<Piece> state(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    ssize_t code = 0;
    while ((code = post(peer, pieces[i], write, state[i])) == -FI_EAGAIN) poll();
    if (code != 0) {
      state[i].done = true;
      state[i].error = static_cast<int>(-code);
    }
  }
  int error = 0;
  for (const Piece& piece : state) {
    while (!piece.done) poll();
    if (error == 0) error = piece.error;
  }
  return error;
}

void Initiator::poll() {
  const auto finish = [](void* context, int error) {
    // The context is the piece's first member.
    static_assert(offsetof(Piece, context) == 0);
    auto* const piece = static_cast<Piece*>(context);
    piece->error = error;
    piece->done = true;
  };
  fi_cq_entry entry{};
  const ssize_t got = fi_cq_read(queue_.get(), &entry, 1);
  if (got == 1) return finish(entry.op_context, 0);
  if (got != -FI_EAVAIL) return;
  fi_cq_err_entry error{};
  if (fi_cq_readerr(queue_.get(), &error, 0) == 1 && error.op_context != nullptr) finish(error.op_context, error.err);
}

}  // namespace keyferry::test
