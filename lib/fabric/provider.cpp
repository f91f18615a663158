#include "fabric/provider.h"

#include <netinet/in.h>
#include <rdma/fi_endpoint.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace keyferry::fabric {

namespace {

/// The wire protocol that 2.x's tcp and 1.17's net share; the same providers also list an older one that 2.x servers
/// don't speak.
constexpr std::uint32_t kSoftwareProtocol = FI_PROTO_XNET;
constexpr const char* kEfaDirectName = "efa-direct";
constexpr const char* kVerbsName = "verbs";

enum class Kind : std::uint8_t { kEfaDirect, kSoftware, kVerbs };

/// As libfabric names it.
const char* provider_name(const Library& library, Kind kind) {
  if (kind == Kind::kEfaDirect) return "efa";
  if (kind == Kind::kVerbs) return "verbs;ofi_rxm";
  return FI_MAJOR(library.version()) >= 2 ? "tcp" : "net";
}

/// As metrics and messages name it.
const char* shown_name(const Library& library, Kind kind) {
  if (kind == Kind::kEfaDirect) return kEfaDirectName;
  return kind == Kind::kVerbs ? kVerbsName : provider_name(library, kind);
}

/// Why one kind of provider can't be used.
struct NotToBeHad {
  std::string why;
};

Info make_hints(const std::shared_ptr<const Library>& library, Kind kind) {
  Info hints(library->dupinfo(nullptr), InfoDeleter{library});
  if (!hints) throw std::runtime_error("keyferry: libfabric can't allocate its hints: memory is short");
  hints->caps = FI_MSG | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
  // The registrar calls into the domain beside the fabric thread (blob-rdma spec C17, C25).
  hints->domain_attr->threading = FI_THREAD_SAFE;
  hints->fabric_attr->prov_name = ::strdup(provider_name(*library, kind));
  if (kind == Kind::kEfaDirect) {
    // FI_RX_CQ_DATA: without it rdma-core before 52 finds nothing (blob-rdma spec 4.5).
    hints->mode = FI_CONTEXT2 | FI_RX_CQ_DATA;
    hints->fabric_attr->name = ::strdup(kEfaDirectName);
  }
  return hints;
}

Info ask(const std::shared_ptr<const Library>& library, Kind kind, const std::string& bind) {
  Info hints = make_hints(library, kind);
  const char* const node = kind == Kind::kEfaDirect || bind.empty() ? nullptr : bind.c_str();
  const std::uint64_t flags = node != nullptr ? FI_SOURCE : 0;
  fi_info* found = nullptr;
  const int code = library->getinfo(node, flags, hints.get(), &found);
  if (code == 0 && found != nullptr) return Info(found, InfoDeleter{library});
  std::string why = library->name() + " offers no provider " + shown_name(*library, kind) + " here, " +
                    library->error_text("fi_getinfo", code);
  hints->domain_attr->threading = FI_THREAD_UNSPEC;
  if (library->getinfo(node, flags, hints.get(), &found) == 0 && found != nullptr) {
    library->freeinfo(found);
    why +=
        "; it would without FI_THREAD_SAFE, so this provider can't be called from two threads and a newer libfabric is "
        "needed";
  } else if (node != nullptr) {
    why += "; is fabric.bind (" + bind + ") an address of this host?";
  }
  if (const char* const filter = std::getenv("FI_PROVIDER"); filter != nullptr)
    why += std::string("; FI_PROVIDER=") + filter + " is set and may leave it out";
  throw NotToBeHad{why};
}

bool usable(const fi_info& entry, Kind kind) {
  if (entry.domain_attr == nullptr || entry.domain_attr->name == nullptr || entry.fabric_attr == nullptr ||
      entry.ep_attr == nullptr)
    return false;
  if (entry.domain_attr->threading != FI_THREAD_SAFE) return false;
  if (kind == Kind::kEfaDirect)
    return entry.fabric_attr->name != nullptr && std::strcmp(entry.fabric_attr->name, kEfaDirectName) == 0;
  return entry.ep_attr->protocol == (kind == Kind::kVerbs ? std::uint32_t{FI_PROTO_RXM} : kSoftwareProtocol);
}

bool has_family(const fi_info& entry, int family) {
  if (family == AF_INET) return entry.addr_format == FI_SOCKADDR_IN;
  if (family == AF_INET6) return entry.addr_format == FI_SOCKADDR_IN6;
  return true;
}

/// Such an address means something only together with an interface of one's own: no peer on another host can use it.
bool link_local(const fi_info& entry) {
  if (entry.addr_format != FI_SOCKADDR_IN6 || entry.src_addr == nullptr || entry.src_addrlen < sizeof(sockaddr_in6))
    return false;
  return IN6_IS_ADDR_LINKLOCAL(&static_cast<const sockaddr_in6*>(entry.src_addr)->sin6_addr);
}

/// efa names a domain after its device and the kind of endpoint: "rdmap16s27-rdm" for the device rdmap16s27.
bool named(const fi_info& entry, const std::string& interface, Kind kind) {
  const std::string domain = entry.domain_attr->name;
  return domain == interface || (kind == Kind::kEfaDirect && domain == interface + "-rdm");
}

std::string domain_list(const std::vector<const fi_info*>& entries) {
  std::vector<std::string> names;
  for (const fi_info* entry : entries) {
    if (std::find(names.begin(), names.end(), entry->domain_attr->name) == names.end())
      names.emplace_back(entry->domain_attr->name);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return "[" + text + "]";
}

const fi_info* first_of_family(const std::vector<const fi_info*>& entries, const std::string* interface, int family,
                               Kind kind) {
  const fi_info* second_choice = nullptr;
  for (const fi_info* entry : entries) {
    if (!has_family(*entry, family) || (interface != nullptr && !named(*entry, *interface, kind))) continue;
    if (!link_local(*entry)) return entry;
    if (second_choice == nullptr) second_choice = entry;
  }
  return second_choice;
}

const fi_info& choose_entry(const fi_info* list, const FabricOptions& options, Kind kind, const char* name) {
  std::vector<const fi_info*> entries;
  for (const fi_info* entry = list; entry != nullptr; entry = entry->next) {
    if (usable(*entry, kind)) entries.push_back(entry);
  }
  if (entries.empty()) {
    throw NotToBeHad{
        std::string("libfabric lists ") + name +
        ", but no entry that is thread-safe and speaks the server's wire protocol; install a newer libfabric"};
  }
  const int family = kind == Kind::kEfaDirect ? 0 : options.family;
  if (options.interfaces.empty()) {
    if (const fi_info* entry = first_of_family(entries, nullptr, family, kind)) return *entry;
  }
  bool name_known = options.interfaces.empty();
  for (const std::string& interface : options.interfaces) {
    if (const fi_info* entry = first_of_family(entries, &interface, family, kind)) return *entry;
    name_known = name_known || first_of_family(entries, &interface, 0, kind) != nullptr;
  }
  if (!name_known) {
    throw std::runtime_error("keyferry: no fabric domain named \"" + options.interfaces.front() + "\"; this host has " +
                             domain_list(entries) + "; correct fabric.interfaces");
  }
  throw std::runtime_error(std::string("keyferry: no fabric address of family ") +
                           (family == AF_INET6 ? "IPv6" : "IPv4") + " on " + domain_list(entries) +
                           ", which the server's address needs; give the interface one, or choose another by "
                           "fabric.interfaces or fabric.bind");
}

Provider choose(const std::shared_ptr<const Library>& library, const FabricOptions& options, Kind kind) {
  if (kind == Kind::kEfaDirect && FI_MAJOR(library->version()) < 2)
    throw NotToBeHad{"efa-direct needs libfabric 2.0 or later, loaded is " + library->name()};
  const Info list = ask(library, kind, options.bind);
  const fi_info& entry = choose_entry(list.get(), options, kind, shown_name(*library, kind));
  Provider provider{Info(library->dupinfo(&entry), InfoDeleter{library}), {}, kind == Kind::kSoftware};
  if (!provider.info) throw std::runtime_error("keyferry: libfabric can't copy a provider's entry: memory is short");
  provider.traits.provider = shown_name(*library, kind);
  provider.traits.library = library->name();
  provider.traits.domain = entry.domain_attr->name;
  // On verbs the device moves the bytes, but ofi_rxm makes its connections only while the queue is read.
  provider.traits.needs_polling = kind != Kind::kEfaDirect;
  provider.traits.deregistration_fences = kind != Kind::kSoftware;
  return provider;
}

}  // namespace

Provider choose_provider(const std::shared_ptr<const Library>& library, const FabricOptions& options) {
  if (options.provider != "auto" && options.provider != kEfaDirectName && options.provider != "software" &&
      options.provider != kVerbsName) {
    throw std::runtime_error("keyferry: fabric.provider is \"" + options.provider +
                             "\"; it must be auto, efa-direct, software or off");
  }
  std::string passed_over;
  if (options.provider == kEfaDirectName || options.provider == "auto") {
    try {
      return choose(library, options, Kind::kEfaDirect);
    } catch (const NotToBeHad& reason) {
      if (options.provider == kEfaDirectName)
        throw std::runtime_error("keyferry: fabric.provider is efa-direct, but " + reason.why);
      passed_over = reason.why;
    }
  }
  try {
    Provider provider = choose(library, options, options.provider == kVerbsName ? Kind::kVerbs : Kind::kSoftware);
    provider.traits.reason = passed_over;
    return provider;
  } catch (const NotToBeHad& reason) {
    throw std::runtime_error("keyferry: no fabric to be had: " + reason.why +
                             (passed_over.empty() ? "" : "; nor efa-direct: " + passed_over));
  }
}

}  // namespace keyferry::fabric
