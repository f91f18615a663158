#include "fabric_service.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "counters.h"
#include "valkey_api.h"

namespace keyferry::large_object {
namespace {

constexpr std::size_t kMostInFlight = 64;
// Passes without progress before the thread sleeps on the queue; a pass that finds nothing takes about a microsecond.
constexpr unsigned kPassesBeforeSleep = 50;
constexpr int kSleepMilliseconds = 10;
constexpr std::chrono::microseconds kPause{100};
// While a piece is being refused only time may change its fate, so the queue need not have an event.
constexpr int kRefusedSleepMilliseconds = 1;

std::optional<sa_family_t> family_of(std::span<const std::byte> address) {
  if (address.size() != sizeof(sockaddr_in) && address.size() != sizeof(sockaddr_in6)) return std::nullopt;
  sa_family_t family = 0;
  std::memcpy(&family, address.data(), sizeof family);
  const bool fits = (family == AF_INET && address.size() == sizeof(sockaddr_in)) ||
                    (family == AF_INET6 && address.size() == sizeof(sockaddr_in6));
  return fits ? std::optional(family) : std::nullopt;
}

std::string failure(const char* call, const std::string& reason) {
  return std::string(call) + ": " + reason;
}

}  // namespace

Peer::~Peer() {
  service_.release_peer(address_);
}

void* LocalMemory::descriptor(std::size_t index, fid_domain& domain, int& code) {
  auto& registration = registrations_[index];
  code = 0;
  if (!registration) {
    fid_mr* mr = nullptr;
    code = fi_mr_reg(&domain, bytes_.data(), bytes_.size(), FI_READ | FI_WRITE, 0, 0, 0, &mr, nullptr);
    if (code != 0) return nullptr;
    registration.reset(mr);
  }
  return fi_mr_desc(registration.get());
}

std::unique_ptr<FabricService> FabricService::open(const Libfabric& library, const fi_info& info,
                                                   const Options& options, std::string& problem) {
  std::unique_ptr<FabricService> service(new FabricService(library, options));
  problem = service->open_objects(info);
  if (!problem.empty()) return nullptr;
  service->thread_ = std::thread([raw = service.get()] { raw->run(); });
  pthread_setname_np(service->thread_.native_handle(),
                     ("largeobj-fab" + std::to_string(options.index)).substr(0, 15).c_str());
  return service;
}

std::string FabricService::open_objects(const fi_info& info) {
  info_ = library_.copy_info(info);
  if (!info_) return "fi_dupinfo: no memory";

  fid_fabric* fabric = nullptr;
  if (const int code = library_.open_fabric(*info_, &fabric); code != 0) {
    return failure("fi_fabric", library_.describe(code));
  }
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int code = fi_domain(fabric_.get(), info_.get(), &domain, nullptr); code != 0) {
    return failure("fi_domain", library_.describe(code));
  }
  domain_.reset(domain);

  fi_av_attr av_attr{};
  av_attr.type = FI_AV_MAP;
  fid_av* av = nullptr;
  if (const int code = fi_av_open(domain_.get(), &av_attr, &av, nullptr); code != 0) {
    return failure("fi_av_open", library_.describe(code));
  }
  av_.reset(av);

  fi_cq_attr cq_attr{};
  cq_attr.format = FI_CQ_FORMAT_CONTEXT;
  cq_attr.wait_obj = options_.waitable ? FI_WAIT_UNSPEC : FI_WAIT_NONE;
  fid_cq* cq = nullptr;
  if (const int code = fi_cq_open(domain_.get(), &cq_attr, &cq, nullptr); code != 0) {
    return failure("fi_cq_open", library_.describe(code));
  }
  cq_.reset(cq);

  fid_ep* endpoint = nullptr;
  if (const int code = fi_endpoint(domain_.get(), info_.get(), &endpoint, nullptr); code != 0) {
    return failure("fi_endpoint", library_.describe(code));
  }
  endpoint_.reset(endpoint);
  if (const int code = fi_ep_bind(endpoint, &av->fid, 0); code != 0) {
    return failure("fi_ep_bind", library_.describe(code));
  }
  if (const int code = fi_ep_bind(endpoint, &cq->fid, FI_TRANSMIT | FI_RECV); code != 0) {
    return failure("fi_ep_bind", library_.describe(code));
  }
  if (const int code = fi_enable(endpoint); code != 0) return failure("fi_enable", library_.describe(code));

  std::array<std::byte, 256> name{};
  std::size_t length = name.size();
  if (const int code = fi_getname(&endpoint->fid, name.data(), &length); code != 0) {
    return failure("fi_getname", library_.describe(code));
  }
  address_.assign(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(length));

  if (options_.max_in_flight == 0) options_.max_in_flight = std::min(kMostInFlight, info_->tx_attr->size);
  return {};
}

bool FabricService::accepts(std::span<const std::byte> address) const {
  if (address.size() != address_.size()) return false;
  if (info_->addr_format == FI_ADDR_EFA) return true;
  const auto own = family_of(address_);
  return own && family_of(address) == own;
}

std::unique_ptr<Peer> FabricService::insert_peer(std::span<const std::byte> address, int& returned) {
  std::string key(reinterpret_cast<const char*>(address.data()), address.size());
  const std::lock_guard lock(peers_mutex_);
  auto found = peers_.find(key);
  if (found == peers_.end()) {
    fi_addr_t handle = FI_ADDR_UNSPEC;
    returned = fi_av_insert(av_.get(), key.data(), 1, &handle, 0, nullptr);
    if (returned != 1) return nullptr;
    found = peers_.emplace(key, KnownPeer{handle, 0}).first;
  }
  returned = 1;
  ++found->second.holders;
  return std::make_unique<Peer>(*this, std::move(key), found->second.handle);
}

int FabricService::spoil_address_vector() {
  std::array<std::byte, 256> nothing{};
  nothing.fill(std::byte{0xff});
  fi_addr_t handle = FI_ADDR_UNSPEC;
  const std::lock_guard lock(peers_mutex_);
  return fi_av_insert(av_.get(), nothing.data(), 1, &handle, 0, nullptr);
}

void FabricService::release_peer(const std::string& address) {
  {
    const std::lock_guard lock(peers_mutex_);
    const auto found = peers_.find(address);
    if (--found->second.holders != 0) return;
  }
  std::unique_lock lock(mutex_);
  released_.push_back(address);
  wake(std::move(lock));
}

void FabricService::remove_unused_peers() {
  std::vector<std::string> released;
  {
    const std::lock_guard lock(mutex_);
    released.swap(released_);
  }
  const std::lock_guard lock(peers_mutex_);
  for (const auto& address : released) {
    const auto found = peers_.find(address);
    // Somebody may have taken it again, or it was released twice since.
    if (found == peers_.end() || found->second.holders != 0) continue;
    fi_av_remove(av_.get(), &found->second.handle, 1, 0);
    peers_.erase(found);
  }
}

void FabricService::submit(std::span<Operation* const> operations) {
  add(counters.pieces_queued, operations.size());
  std::unique_lock lock(mutex_);
  submitted_.insert(submitted_.end(), operations.begin(), operations.end());
  wake(std::move(lock));
}

void FabricService::wake(std::unique_lock<std::mutex> lock) {
  const auto sleep = sleep_;
  lock.unlock();
  if (sleep == Sleep::kOnCondition) condition_.notify_one();
  if (sleep == Sleep::kOnQueue) fi_cq_signal(cq_.get());
}

void FabricService::stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake(std::move(lock));
  thread_.join();
}

void FabricService::run() {
  while (take_submitted()) {
    remove_unused_peers();
    const bool posted = post_queued();
    const bool completed = drain_completions();
    if (posted || completed) {
      fruitless_passes_ = 0;
    } else {
      wait_for_events();
    }
  }
}

// Sleeps while there is nothing to do; an idle service does not touch its completion queue. False: the end.
bool FabricService::take_submitted() {
  std::unique_lock lock(mutex_);
  if (queue_.empty() && in_flight_ == 0) {
    sleep_ = Sleep::kOnCondition;
    condition_.wait(lock, [this] { return stopping_ || !submitted_.empty() || !released_.empty(); });
    sleep_ = Sleep::kAwake;
  }
  queue_.insert(queue_.end(), submitted_.begin(), submitted_.end());
  submitted_.clear();
  return !stopping_;
}

// One pass over what was queued when it began; true if the provider took anything.
bool FabricService::post_queued() {
  bool posted = false;
  for (std::size_t left = queue_.size(); left != 0 && in_flight_ < options_.max_in_flight; --left) {
    Operation& operation = *queue_.front();
    queue_.pop_front();
    if (!operation.owner->wanted()) {
      subtract(counters.pieces_queued);
      end(operation, "another piece of the transfer failed");
      continue;
    }
    const ssize_t result = post(operation);
    if (result == 0) {
      subtract(counters.pieces_queued);
      add(counters.pieces_in_flight);
      ++in_flight_;
      posted = true;
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    if (result == -FI_EAGAIN && (!operation.first_refusal || now - *operation.first_refusal < options_.patience)) {
      if (!operation.first_refusal) operation.first_refusal = now;
      queue_.push_back(&operation);
      continue;
    }
    subtract(counters.pieces_queued);
    end(operation, result == -FI_EAGAIN ? "no progress posting for " + std::to_string(options_.patience.count()) +
                                              " ms: peer unreachable or transmit queue stuck"
                                        : failure("post", library_.describe(result)));
  }
  return posted;
}

ssize_t FabricService::post(Operation& operation) {
  void* descriptor = nullptr;
  if ((info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0) {
    int code = 0;
    descriptor = operation.memory->descriptor(options_.index, *domain_, code);
    if (code != 0) return code;
  }
  const fi_addr_t peer = operation.peers[options_.index]->handle();
  operation.context.operation = &operation;
  operation.posted = std::chrono::steady_clock::now();
  if (operation.kind == Operation::Kind::kRead) {
    return fi_read(endpoint_.get(), operation.local.data(), operation.local.size(), descriptor, peer,
                   operation.remote_address, operation.remote_key, &operation.context.space);
  }
  iovec local{operation.local.data(), operation.local.size()};
  fi_rma_iov remote{operation.remote_address, operation.local.size(), operation.remote_key};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = peer;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &operation.context.space;
  return fi_writemsg(endpoint_.get(), &message, FI_DELIVERY_COMPLETE);
}

bool FabricService::drain_completions() {
  bool any = false;
  while (true) {
    std::array<fi_cq_entry, 16> entries{};
    const ssize_t count = fi_cq_read(cq_.get(), entries.data(), entries.size());
    if (count == -FI_EAVAIL) {
      handle_error_entry();
      any = true;
      continue;
    }
    if (count <= 0) return any;
    for (ssize_t i = 0; i < count; ++i) {
      --in_flight_;
      subtract(counters.pieces_in_flight);
      end(*reinterpret_cast<Operation::Context*>(entries[static_cast<std::size_t>(i)].op_context)->operation, {});
    }
    any = true;
  }
}

void FabricService::handle_error_entry() {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(cq_.get(), &entry, 0) != 1) return;
  if (entry.op_context == nullptr) {
    ValkeyModule_Log(nullptr, "warning", "largeobj: fabric service %zu: a completion error names no operation: %s",
                     options_.index, library_.describe(entry.err).c_str());
    return;
  }
  --in_flight_;
  subtract(counters.pieces_in_flight);
  end(*reinterpret_cast<Operation::Context*>(entry.op_context)->operation,
      failure("completion",
              library_.describe(entry.err) + ", provider's own code " + std::to_string(entry.prov_errno)));
}

void FabricService::wait_for_events() {
  if (++fruitless_passes_ < kPassesBeforeSleep) {
    std::this_thread::yield();
    return;
  }
  if (!options_.waitable) {
    std::this_thread::sleep_for(kPause);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || !submitted_.empty()) return;
    sleep_ = Sleep::kOnQueue;
  }
  // Refused pieces wait in the queue although there is room for them.
  const bool refused = !queue_.empty() && in_flight_ < options_.max_in_flight;
  fi_cq_entry entry{};
  const ssize_t count =
      fi_cq_sread(cq_.get(), &entry, 1, nullptr, refused ? kRefusedSleepMilliseconds : kSleepMilliseconds);
  {
    const std::lock_guard lock(mutex_);
    sleep_ = Sleep::kAwake;
  }
  if (count == 1) {
    --in_flight_;
    subtract(counters.pieces_in_flight);
    end(*reinterpret_cast<Operation::Context*>(entry.op_context)->operation, {});
    fruitless_passes_ = 0;
  } else if (count != -FI_EAGAIN && count != -FI_EAVAIL && count != -FI_EINTR && count != -FI_ECANCELED) {
    // The provider cannot sleep on this queue.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void FabricService::end(Operation& operation, const std::string& problem) {
  outstanding_.fetch_sub(1, std::memory_order_relaxed);
  if (!problem.empty()) {
    ValkeyModule_Log(nullptr, "verbose", "largeobj: fabric service %zu: a piece of %zu bytes failed: %s",
                     options_.index, operation.local.size(), problem.c_str());
  }
  const auto owner = std::move(operation.owner);
  owner->operation_ended(operation, problem);
}

}  // namespace keyferry::large_object
