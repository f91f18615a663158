#include "upstream/rdma_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "upstream/rdma_tuning.h"

namespace keyferry::upstream {

namespace {

// Most devices take 7 for seven times, soft RoCE for without end: then a link that is lost never shows.
constexpr std::uint8_t kRetries = 6;
// Without end, as the specification of InfiniBand has it.
constexpr std::uint8_t kReceiverRetries = 7;
// What the connection manager gives as a reason when nobody listens on the port (IB_CM_REJ_INVALID_SERVICE_ID).
constexpr int kNobodyListens = 8;
// Its reason when a process turned the connection away or died with it in its queue (IB_CM_REJ_CONSUMER_DEFINED).
constexpr int kTurnedAway = 28;

bool set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

std::string words(int number) {
  return std::strerror(number < 0 ? -number : number);
}

// R69: the limit that makes a registration fail, and what to set.
std::string memory_advice(int number) {
  if (number != ENOMEM) return {};
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string now =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur / 1024) + " KiB";
  return " (RLIMIT_MEMLOCK is " + now + "; set LimitMEMLOCK=infinity in the unit, or memlock in limits.conf)";
}

std::string rejection(int reason) {
  if (reason == kNobodyListens) return "nobody listens for RDMA on this port";
  if (reason == kTurnedAway) return "turned away by the server's process, which has no room or is ending";
  return "rejected by the server (reason " + std::to_string(reason) + ")";
}

RdmaLink::Event event_of(const rdma_cm_event& event) {
  using Kind = RdmaLink::Event::Kind;
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return {Kind::kAddress, {}};
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return {Kind::kRoute, {}};
    case RDMA_CM_EVENT_ESTABLISHED:
      return {Kind::kEstablished, {}};
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return {Kind::kDisconnected, {}};
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return {Kind::kGone, "the RDMA device was removed"};
    case RDMA_CM_EVENT_ADDR_ERROR:
      return {Kind::kFailed, "no RDMA device has a route to this address (" + words(event.status) + ")"};
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return {Kind::kFailed, "no RDMA route (" + words(event.status) + ")"};
    case RDMA_CM_EVENT_UNREACHABLE:
      return {Kind::kFailed, "the server does not answer"};
    case RDMA_CM_EVENT_REJECTED:
      return {Kind::kFailed, rejection(event.status)};
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return {Kind::kFailed, "given up by the server while connecting (is its maxclients reached?)"};
    default:
      return {Kind::kFailed, std::string("unexpected ") + rdma_event_str(event.event)};
  }
}

}  // namespace

base::Error RdmaLink::failed(const std::string& what, int number) const {
  return {what + ": " + words(number) + memory_advice(number), number};
}

base::Result<std::unique_ptr<RdmaLink>> RdmaLink::open() {
  // Asked first, as the library writes to stderr where there is none.
  std::error_code none;
  const std::string& devices = rdma_tuning().devices;
  if (std::filesystem::directory_iterator(devices, none) == std::filesystem::directory_iterator())
    return base::Error{"this host has no RDMA device (" + devices + " is empty)"};
  std::unique_ptr<RdmaLink> link(new RdmaLink);
  link->events_ = rdma_create_event_channel();
  if (link->events_ == nullptr) {
    const int number = errno;
    return base::Error{"/dev/infiniband/rdma_cm: " + words(number), number};
  }
  if (!set_nonblocking(link->events_->fd)) return link->failed("event channel", errno);
  if (rdma_create_id(link->events_, &link->id_, link.get(), RDMA_PS_TCP) != 0)
    return link->failed("rdma_create_id", errno);
  return link;
}

base::Result<void> RdmaLink::resolve(const sockaddr* address, int milliseconds) {
  if (rdma_resolve_addr(id_, nullptr, const_cast<sockaddr*>(address), milliseconds) != 0) {
    const int number = errno;
    if (number == ENODEV || number == ENETUNREACH || number == EHOSTUNREACH)
      return base::Error{"no RDMA device has a route to this address", number};
    return failed("rdma_resolve_addr", number);
  }
  return {};
}

base::Result<void> RdmaLink::route(int milliseconds) {
  if (rdma_resolve_route(id_, milliseconds) != 0) return failed("rdma_resolve_route", errno);
  return {};
}

base::Result<void> RdmaLink::map(std::size_t buffer) {
  const std::size_t bytes = 2 * buffer + 2 * slots_;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return failed("memory for the RDMA buffers", errno);
  memory_ = base::MutableBytes(static_cast<std::byte*>(memory), bytes);
  buffer_ = buffer;
  receive_region_ =
      ibv_reg_mr(domain_, memory, buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  if (receive_region_ == nullptr) return failed("registering " + std::to_string(buffer) + " bytes", errno);
  send_region_ = ibv_reg_mr(domain_, memory_.data() + buffer, bytes - buffer, IBV_ACCESS_LOCAL_WRITE);
  if (send_region_ == nullptr) return failed("registering " + std::to_string(bytes - buffer) + " bytes", errno);
  return {};
}

base::Result<void> RdmaLink::prepare(const RdmaSettings& settings) {
  depth_ = rdma_tuning().queue;
  slots_ = std::size_t{depth_} * RdmaMessage::kBytes;
  domain_ = ibv_alloc_pd(id_->verbs);
  if (domain_ == nullptr) return failed("ibv_alloc_pd", errno);
  completions_ = ibv_create_comp_channel(id_->verbs);
  if (completions_ == nullptr || !set_nonblocking(completions_->fd)) return failed("ibv_create_comp_channel", errno);
  const auto vectors = static_cast<unsigned>(std::max(id_->verbs->num_comp_vectors, 1));
  queue_ = ibv_create_cq(id_->verbs, static_cast<int>(2 * depth_), nullptr, completions_,
                         static_cast<int>(settings.completion_vector % vectors));
  if (queue_ == nullptr) return failed("ibv_create_cq", errno);
  if (ibv_req_notify_cq(queue_, 0) != 0) return failed("ibv_req_notify_cq", errno);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = queue_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = depth_;
  attributes.cap.max_send_sge = 2;
  attributes.cap.max_recv_sge = 1;
  if (rdma_create_qp(id_, domain_, &attributes) != 0) return failed("rdma_create_qp", errno);
  if (auto mapped = map(settings.buffer); !mapped) return mapped;
  for (std::uint64_t slot = 0; slot < depth_; ++slot) {
    if (!post_receive(slot)) return failed("ibv_post_recv", errno);
  }
  return {};
}

base::Result<void> RdmaLink::connect() {
  rdma_conn_param parameters{};
  parameters.responder_resources = parameters.initiator_depth = 1;
  parameters.retry_count = kRetries;
  parameters.rnr_retry_count = kReceiverRetries;
  if (rdma_connect(id_, &parameters) != 0) return failed("rdma_connect", errno);
  return {};
}

std::optional<RdmaLink::Event> RdmaLink::next_event() {
  rdma_cm_event* raw = nullptr;
  if (rdma_get_cm_event(events_, &raw) != 0) return std::nullopt;
  Event event = event_of(*raw);
  rdma_ack_cm_event(raw);
  if (event.kind == Event::Kind::kEstablished) established_ = true;
  if (event.kind == Event::Kind::kDisconnected || event.kind == Event::Kind::kGone ||
      event.kind == Event::Kind::kFailed)
    farewell_ = true;
  return event;
}

bool RdmaLink::arm() {
  return take_notifications() && ibv_req_notify_cq(queue_, 0) == 0;
}

bool RdmaLink::take_notifications() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  unsigned taken = 0;
  while (ibv_get_cq_event(completions_, &queue, &context) == 0) ++taken;
  const bool none_left = errno == EAGAIN || errno == EINTR;
  if (taken > 0) ibv_ack_cq_events(queue_, taken);
  return none_left;
}

std::span<const ibv_wc> RdmaLink::poll() {
  const int count = ibv_poll_cq(queue_, static_cast<int>(polled_.size()), polled_.data());
  return {polled_.data(), static_cast<std::size_t>(std::max(count, 0))};
}

bool RdmaLink::post_data(const RdmaSendLedger::Data& data, std::uint64_t remote_address, std::uint32_t remote_key) {
  const base::MutableBytes source = ring();
  const std::size_t first = std::min(data.bytes, source.size() - data.ring_offset);
  ibv_sge pieces[2] = {};
  pieces[0] = {reinterpret_cast<std::uint64_t>(source.data() + data.ring_offset), static_cast<std::uint32_t>(first),
               send_region_->lkey};
  pieces[1] = {reinterpret_cast<std::uint64_t>(source.data()), static_cast<std::uint32_t>(data.bytes - first),
               send_region_->lkey};
  ibv_send_wr request{};
  request.wr_id = data.number;
  request.sg_list = pieces;
  request.num_sge = data.bytes == 0 ? 0 : first == data.bytes ? 1 : 2;
  request.opcode = data.notify ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  request.send_flags = data.signal ? IBV_SEND_SIGNALED : 0;
  request.imm_data = htonl(data.immediate);
  request.wr.rdma.remote_addr = remote_address + data.window_offset;
  request.wr.rdma.rkey = remote_key;
  ibv_send_wr* refused = nullptr;
  return ibv_post_send(id_->qp, &request, &refused) == 0;
}

bool RdmaLink::post_control(const RdmaSendLedger::Control& control, const RdmaMessage& message) {
  // No more requests than slots are under way, so the slot of that number is free.
  const base::MutableBytes slot =
      memory_.subspan(2 * buffer_ + slots_ + (control.number % depth_) * RdmaMessage::kBytes, RdmaMessage::kBytes);
  const auto bytes = encode(message);
  std::memcpy(slot.data(), bytes.data(), bytes.size());
  ibv_sge piece{reinterpret_cast<std::uint64_t>(slot.data()), RdmaMessage::kBytes, send_region_->lkey};
  ibv_send_wr request{};
  request.wr_id = control.number;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = control.signal ? IBV_SEND_SIGNALED : 0;
  ibv_send_wr* refused = nullptr;
  return ibv_post_send(id_->qp, &request, &refused) == 0;
}

bool RdmaLink::post_receive(std::uint64_t slot) {
  ibv_sge piece{reinterpret_cast<std::uint64_t>(memory_.data() + 2 * buffer_ + slot * RdmaMessage::kBytes),
                RdmaMessage::kBytes, send_region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = kReceiveMark | slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  const int outcome = ibv_post_recv(id_->qp, &request, &refused);
  if (outcome != 0) {
    errno = outcome;
    return false;
  }
  ++receives_;
  return true;
}

std::span<const std::byte> RdmaLink::message(std::uint64_t slot) const {
  return memory_.subspan(2 * buffer_ + slot * RdmaMessage::kBytes, RdmaMessage::kBytes);
}

void RdmaLink::disconnect() {
  if (!established_ || std::exchange(disconnected_, true)) return;
  if (rdma_disconnect(id_) != 0) farewell_ = true;
}

RdmaLink::~RdmaLink() {
  disconnect();
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kFarewell);
  while (!drained() && std::chrono::steady_clock::now() < until) {
    while (next_event()) continue;
    for (auto ended = poll(); !ended.empty(); ended = poll()) {
      for (const ibv_wc& one : ended)
        if ((one.wr_id & kReceiveMark) != 0) receive_ended();
    }
    pollfd waiting{events_->fd, POLLIN, 0};
    if (!drained()) ::poll(&waiting, 1, 10);
  }
  if (id_ != nullptr && id_->qp != nullptr) rdma_destroy_qp(id_);
  if (queue_ != nullptr) {
    // ibv_destroy_cq waits until every notification was acknowledged.
    static_cast<void>(take_notifications());
    ibv_destroy_cq(queue_);
  }
  if (receive_region_ != nullptr) ibv_dereg_mr(receive_region_);
  if (send_region_ != nullptr) ibv_dereg_mr(send_region_);
  if (completions_ != nullptr) ibv_destroy_comp_channel(completions_);
  if (domain_ != nullptr) ibv_dealloc_pd(domain_);
  if (id_ != nullptr) {
    // rdma_destroy_id waits until every event was acknowledged.
    while (next_event()) continue;
    rdma_destroy_id(id_);
  }
  if (events_ != nullptr) rdma_destroy_event_channel(events_);
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

}  // namespace keyferry::upstream
