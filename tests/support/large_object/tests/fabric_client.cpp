#include "fabric_client.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "libfabric.h"

using keyferry::large_object::FidPtr;
using keyferry::large_object::Libfabric;

struct FabricClient {
  // In the order of creation; destroyed in the opposite one.
  std::unique_ptr<Libfabric> library;
  Libfabric::Info info{nullptr, nullptr};
  FidPtr<fid_fabric> fabric;
  FidPtr<fid_domain> domain;
  FidPtr<fid_av> av;
  FidPtr<fid_cq> cq;
  FidPtr<fid_ep> endpoint;
  std::vector<FidPtr<fid_mr>> registrations;
  std::uint64_t next_key = 1;
  std::atomic<bool> polling{false};
  std::thread poller;
};

namespace {

void poll_queue(FabricClient& client) {
  while (client.polling.load()) {
    fi_cq_entry entry{};
    const auto count = fi_cq_sread(client.cq.get(), &entry, 1, nullptr, 5);
    if (count == -FI_EAVAIL) {
      fi_cq_err_entry error{};
      fi_cq_readerr(client.cq.get(), &error, 0);
    }
    while (fi_cq_read(client.cq.get(), &entry, 1) > 0) {
    }
  }
}

std::string open_objects(FabricClient& client, const char* path, const char* bind) {
  std::string problem;
  client.library = Libfabric::load(path, problem);
  if (!client.library) return problem;
  auto hints = client.library->allocate_info();
  hints->fabric_attr->prov_name = strdup(client.library->major() < 2 ? "net" : "tcp");
  hints->caps = FI_MSG | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  int code = 0;
  client.info = client.library->get_info(bind, FI_SOURCE, *hints, code);
  if (!client.info) return "fi_getinfo: " + client.library->describe(code);

  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_av* av = nullptr;
  fid_cq* cq = nullptr;
  fid_ep* endpoint = nullptr;
  if (client.library->open_fabric(*client.info, &fabric) != 0) return "fi_fabric failed";
  client.fabric.reset(fabric);
  if (fi_domain(fabric, client.info.get(), &domain, nullptr) != 0) return "fi_domain failed";
  client.domain.reset(domain);
  fi_av_attr av_attr{};
  av_attr.type = FI_AV_MAP;
  if (fi_av_open(domain, &av_attr, &av, nullptr) != 0) return "fi_av_open failed";
  client.av.reset(av);
  fi_cq_attr cq_attr{};
  cq_attr.format = FI_CQ_FORMAT_CONTEXT;
  cq_attr.wait_obj = FI_WAIT_UNSPEC;
  if (fi_cq_open(domain, &cq_attr, &cq, nullptr) != 0) return "fi_cq_open failed";
  client.cq.reset(cq);
  if (fi_endpoint(domain, client.info.get(), &endpoint, nullptr) != 0) return "fi_endpoint failed";
  client.endpoint.reset(endpoint);
  if (fi_ep_bind(endpoint, &av->fid, 0) != 0 || fi_ep_bind(endpoint, &cq->fid, FI_TRANSMIT | FI_RECV) != 0) {
    return "fi_ep_bind failed";
  }
  if (fi_enable(endpoint) != 0) return "fi_enable failed";
  return {};
}

constexpr auto kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1U) ^ ((value & 1U) != 0 ? 0x82F63B78U : 0U);
    table[i] = value;
  }
  return table;
}();

}  // namespace

extern "C" {

__attribute__((visibility("default"))) FabricClient* fabric_client_open(const char* libfabric, const char* bind,
                                                                        char* problem, std::size_t problem_size) {
  auto client = std::make_unique<FabricClient>();
  const auto text = open_objects(*client, libfabric, bind);
  std::snprintf(problem, problem_size, "%s", text.c_str());
  return text.empty() ? client.release() : nullptr;
}

__attribute__((visibility("default"))) std::size_t fabric_client_address(const FabricClient* client, unsigned char* out,
                                                                         std::size_t size) {
  return fi_getname(&client->endpoint->fid, out, &size) == 0 ? size : 0;
}

__attribute__((visibility("default"))) int fabric_client_insert(FabricClient* client, const unsigned char* address) {
  fi_addr_t handle = FI_ADDR_UNSPEC;
  return fi_av_insert(client->av.get(), address, 1, &handle, 0, nullptr);
}

__attribute__((visibility("default"))) int fabric_client_register(FabricClient* client, void* memory, std::size_t size,
                                                                  std::uint64_t* key, std::uint64_t* base) {
  const auto mode = client->info->domain_attr->mr_mode;
  const std::uint64_t wanted = (mode & FI_MR_PROV_KEY) != 0 ? 0 : client->next_key++;
  fid_mr* mr = nullptr;
  const int code = fi_mr_reg(client->domain.get(), memory, size, FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE,
                             0, wanted, 0, &mr, nullptr);
  if (code != 0) return code;
  client->registrations.emplace_back(mr);
  *key = fi_mr_key(mr);
  *base = (mode & FI_MR_VIRT_ADDR) != 0 ? reinterpret_cast<std::uint64_t>(memory) : 0;
  return 0;
}

__attribute__((visibility("default"))) void fabric_client_poll(FabricClient* client, int on) {
  if (client->polling.exchange(on != 0) == (on != 0)) return;
  if (on != 0) {
    client->poller = std::thread([client] { poll_queue(*client); });
  } else {
    client->poller.join();
  }
}

__attribute__((visibility("default"))) void fabric_client_close_endpoint(FabricClient* client) {
  fabric_client_poll(client, 0);
  client->endpoint.reset();
}

__attribute__((visibility("default"))) void fabric_client_close(FabricClient* client) {
  fabric_client_close_endpoint(client);
  delete client;
}

__attribute__((visibility("default"))) std::uint32_t fabric_client_crc32c(const unsigned char* bytes,
                                                                          std::size_t size) {
  std::uint32_t value = ~0U;
  for (std::size_t i = 0; i < size; ++i) value = (value >> 8U) ^ kTable[(value ^ bytes[i]) & 0xffU];
  return ~value;
}
}
