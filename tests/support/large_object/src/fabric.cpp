#include "fabric.h"

#include <algorithm>
#include <cstring>

#include "text.h"

namespace keyferry::large_object {
namespace {

constexpr std::uint64_t kCapabilities = FI_MSG | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr int kMemoryModes = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;

// 1.17's "net" and 2.x's "tcp" are one provider under two names; 1.17's "tcp" speaks another wire protocol (blob-rdma
// spec 4.6).
const char* provider_name(const Libfabric& library, Provider provider) {
  if (provider == Provider::kEfaDirect) return "efa";
  if (provider == Provider::kVerbs) return "verbs;ofi_rxm";
  return library.major() < 2 ? "net" : "tcp";
}

Libfabric::Info find_entries(const Libfabric& library, const Settings& settings, std::string& problem) {
  auto hints = library.allocate_info();
  if (!hints) {
    problem = "fi_allocinfo: no memory";
    return hints;
  }
  const bool efa = settings.provider() == Provider::kEfaDirect;
  // libfabric frees these strings with the hints.
  hints->fabric_attr->prov_name = strdup(provider_name(library, settings.provider()));
  if (efa) hints->fabric_attr->name = strdup("efa-direct");
  hints->caps = kCapabilities;
  hints->mode = efa ? FI_CONTEXT2 | FI_RX_CQ_DATA : 0;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = kMemoryModes;
  hints->domain_attr->threading = FI_THREAD_SAFE;

  const bool bound = !efa && settings.fabric_interfaces.empty() && !settings.fabric_bind.empty();
  const char* node = bound ? settings.fabric_bind.c_str() : nullptr;
  int code = 0;
  auto entries = library.get_info(node, bound ? FI_SOURCE : 0, *hints, code);
  if (!entries) {
    problem = "fi_getinfo for provider " + std::string(provider_name(library, settings.provider())) +
              (bound ? " at " + settings.fabric_bind : std::string()) + ": " + library.describe(code);
  }
  return entries;
}

bool usable(const fi_info& entry, Provider provider) {
  if (entry.domain_attr == nullptr || entry.domain_attr->name == nullptr || entry.ep_attr == nullptr) return false;
  if (provider == Provider::kEfaDirect) return true;
  return entry.ep_attr->protocol == (provider == Provider::kVerbs ? FI_PROTO_RXM : FI_PROTO_XNET);
}

// The first entry of each domain in list order, or of each domain named in fabric-interfaces.
std::vector<const fi_info*> choose_entries(const fi_info& list, const Settings& settings, std::string& problem) {
  std::vector<const fi_info*> first_of_domain;
  std::string names;
  for (const fi_info* entry = &list; entry != nullptr; entry = entry->next) {
    if (!usable(*entry, settings.provider())) continue;
    const auto same_name = [entry](const fi_info* other) {
      return std::strcmp(other->domain_attr->name, entry->domain_attr->name) == 0;
    };
    if (std::any_of(first_of_domain.begin(), first_of_domain.end(), same_name)) continue;
    first_of_domain.push_back(entry);
    names.append(names.empty() ? "" : ", ").append(entry->domain_attr->name);
  }
  if (first_of_domain.empty()) problem = "fi_getinfo lists no entry of the right wire protocol";

  const auto wanted = split_list(settings.fabric_interfaces);
  if (wanted.empty()) return first_of_domain;
  std::vector<const fi_info*> chosen;
  for (const auto& name : wanted) {
    const auto found = std::find_if(first_of_domain.begin(), first_of_domain.end(),
                                    [&name](const fi_info* entry) { return name == entry->domain_attr->name; });
    if (found == first_of_domain.end()) {
      problem = "no fabric domain named \"" + name + "\"; this host has " + names;
      return {};
    }
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace

std::unique_ptr<Fabric> Fabric::open(const Settings& settings, std::string& problem) {
  if (settings.provider() == Provider::kOff) {
    problem = "switched off by largeobj.fabric-provider";
    return nullptr;
  }
  std::unique_ptr<Fabric> fabric(new Fabric);
  fabric->provider_ = settings.provider();
  fabric->library_ = Libfabric::load(settings.libfabric_path, problem);
  if (!fabric->library_) return nullptr;
  const auto& library = *fabric->library_;
  if (settings.provider() == Provider::kEfaDirect && library.major() < 2) {
    problem = "EfaDirect needs libfabric 2.x; " + library.file() + " is " + library.version();
    return nullptr;
  }
  const auto list = find_entries(library, settings, problem);
  if (!list) return nullptr;
  const auto entries = choose_entries(*list, settings, problem);
  if (!problem.empty()) return nullptr;

  const auto count =
      settings.fabric_services == 0 ? entries.size() : static_cast<std::size_t>(settings.fabric_services);
  for (std::size_t i = 0; i < count; ++i) {
    const FabricService::Options options{i, static_cast<std::size_t>(settings.fabric_max_in_flight),
                                         settings.provider() == Provider::kEmulated,
                                         std::chrono::milliseconds(settings.fabric_patience)};
    auto service = FabricService::open(library, *entries[i % entries.size()], options, problem);
    if (!service) {
      fabric->stop();
      return nullptr;
    }
    fabric->services_.push_back(std::move(service));
  }
  fabric->description_ = std::string(provider_name(library, settings.provider())) + " of libfabric " +
                         library.version() + " (" + library.file() + ")";
  return fabric;
}

SessionRef Fabric::create_session(std::span<const std::byte> address, std::string& problem) {
  auto session = std::make_shared<Session>();
  for (std::size_t i = 0; i < services_.size(); ++i) {
    // What fi_av_insert says to an address it cannot use.
    int returned = -FI_EINVAL;
    std::unique_ptr<Peer> peer;
    if (services_[i]->accepts(address)) peer = services_[i]->insert_peer(address, returned);
    if (!peer) {
      problem = "service " + std::to_string(i) + ": fabric error: fi_av_insert inserted " + std::to_string(returned) +
                " of 1 addresses";
      return nullptr;
    }
    session->peers.push_back(std::move(peer));
  }
  return session;
}

std::size_t Fabric::choose() {
  std::uniform_int_distribution<std::size_t> any(0, services_.size() - 1);
  const auto first = any(random_);
  const auto second = any(random_);
  return services_[second]->outstanding() < services_[first]->outstanding() ? second : first;
}

void Fabric::submit(std::span<Operation> operations, const std::shared_ptr<OperationOwner>& owner) {
  std::vector<std::vector<Operation*>> by_service(services_.size());
  for (auto& operation : operations) {
    operation.owner = owner;
    const auto index = choose();
    services_[index]->expect(1);
    by_service[index].push_back(&operation);
  }
  for (std::size_t i = 0; i < services_.size(); ++i) {
    if (!by_service[i].empty()) services_[i]->submit(by_service[i]);
  }
}

void Fabric::stop() {
  for (auto& service : services_) service->stop();
}

}  // namespace keyferry::large_object
