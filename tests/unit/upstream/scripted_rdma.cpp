#include "tests/unit/upstream/scripted_rdma.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "upstream/rdma_message.h"

namespace keyferry::test {

using upstream::RdmaMessage;

namespace {

constexpr std::size_t kWindow = std::size_t{1} << 20;

ScriptedRdma* current = nullptr;

int failed(int number) {
  errno = number;
  return -1;
}

bool take_one(int fd) {
  eventfd_t value = 0;
  return ::eventfd_read(fd, &value) == 0;
}

}  // namespace

/// One connection: the library's objects, all in one place, and the other end.
struct ScriptedRdma::Link {
  rdma_event_channel channel{};
  rdma_cm_id id{};
  ibv_context context{};
  ibv_pd domain{};
  ibv_comp_channel completions{};
  ibv_cq queue{};
  ibv_qp pair{};
  std::deque<rdma_cm_event_type> events;
  std::deque<ibv_wc> done;
  std::deque<ibv_recv_wr> receives;
  std::deque<ibv_sge> receive_pieces;
  bool armed = false;
  // The client's buffer, and how much of it was written; ours.
  std::byte* target = nullptr;
  std::size_t filled = 0;
  std::string window = std::string(kWindow, '\0');
  std::size_t window_read = 0;
  std::string received;
  std::size_t notices = 0;
  std::size_t keepalives = 0;

  void say(rdma_cm_event_type event) {
    events.push_back(event);
    ::eventfd_write(channel.fd, 1);
  }
  void complete(const ibv_wc& completion) {
    done.push_back(completion);
    if (std::exchange(armed, false)) ::eventfd_write(completions.fd, 1);
  }
  // The oldest receive, taken by something that came.
  void arrive(ibv_wc completion, std::string_view message = {}) {
    if (receives.empty()) return;
    if (!message.empty())
      std::memcpy(reinterpret_cast<void*>(receive_pieces.front().addr), message.data(), message.size());
    completion.wr_id = receives.front().wr_id;
    receives.pop_front();
    receive_pieces.pop_front();
    complete(completion);
  }
  void send(const RdmaMessage& message) {
    const auto bytes = encode(message);
    ibv_wc completion{};
    completion.opcode = IBV_WC_RECV;
    completion.byte_len = static_cast<std::uint32_t>(bytes.size());
    arrive(completion, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  void announce() {
    window_read = 0;
    send({.opcode = RdmaMessage::Opcode::kRegisterXferMemory,
          .address = reinterpret_cast<std::uint64_t>(window.data()),
          .length = static_cast<std::uint32_t>(window.size()),
          .key = 1});
  }
  void hear(const ibv_send_wr& request) {
    if (request.opcode == IBV_WR_SEND) {
      const auto* const bytes = reinterpret_cast<const std::byte*>(request.sg_list[0].addr);
      const auto message = upstream::decode({bytes, request.sg_list[0].length});
      if (message && message->opcode == RdmaMessage::Opcode::kGetServerFeature)
        send({.opcode = RdmaMessage::Opcode::kGetServerFeature});
      if (message && message->opcode == RdmaMessage::Opcode::kKeepalive) ++keepalives;
      if (message && message->opcode == RdmaMessage::Opcode::kRegisterXferMemory) {
        target = reinterpret_cast<std::byte*>(message->address);
        filled = 0;
      }
    } else {
      auto* to = reinterpret_cast<char*>(request.wr.rdma.remote_addr);
      for (int i = 0; i < request.num_sge; ++i) {
        std::memcpy(to, reinterpret_cast<const void*>(request.sg_list[i].addr), request.sg_list[i].length);
        to += request.sg_list[i].length;
      }
      if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        const std::size_t bytes = ntohl(request.imm_data);
        ++notices;
        if (current->hangs_up) say(RDMA_CM_EVENT_DISCONNECTED);
        received.append(window, window_read, bytes);
        window_read += bytes;
      }
    }
    if ((request.send_flags & IBV_SEND_SIGNALED) == 0) return;
    ibv_wc completion{};
    completion.wr_id = request.wr_id;
    complete(completion);
  }
  void flush() {
    ibv_wc completion{};
    completion.status = IBV_WC_WR_FLUSH_ERR;
    while (!receives.empty()) arrive(completion);
  }
};

/// What the functions of the libraries below come to.
class ScriptedRdma::Library {
 public:
  static ScriptedRdma& script() { return *current; }
  template <typename Part>
  static Link& link_of(const Part* part, Part Link::*member) {
    for (const auto& link : current->links_)
      if (&(link.get()->*member) == part) return *link;
    std::abort();
  }
  static void made() { ++current->objects_; }
  static int destroyed() {
    --current->objects_;
    return 0;
  }
  static bool removed() { return current->removed_; }
  // For calls that a removed device makes senseless.
  static bool in_vain() {
    if (current->removed_) ++current->asked_in_vain_;
    return current->removed_;
  }
  static Link& add() { return *current->links_.emplace_back(std::make_unique<Link>()); }
  static int step(Link& link, Step step, rdma_cm_event_type well) {
    const auto found = current->answers_.find(step);
    const rdma_cm_event_type event = found == current->answers_.end() ? well : found->second;
    if (event != RDMA_CM_EVENT_MULTICAST_JOIN) link.say(event);
    if (step == Step::kConnect && event == RDMA_CM_EVENT_ESTABLISHED && current->announces) link.announce();
    return 0;
  }
};

using Library = ScriptedRdma::Library;
using Link = ScriptedRdma::Link;

ScriptedRdma::ScriptedRdma() {
  current = this;
}
ScriptedRdma::~ScriptedRdma() {
  current = nullptr;
}
void ScriptedRdma::event(std::size_t link, rdma_cm_event_type event) {
  links_.at(link)->say(event);
}
void ScriptedRdma::reply(std::size_t number, std::string_view bytes) {
  Link& link = *links_.at(number);
  std::memcpy(link.target + link.filled, bytes.data(), bytes.size());
  link.filled += bytes.size();
  ibv_wc completion{};
  completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  completion.imm_data = htonl(static_cast<std::uint32_t>(bytes.size()));
  link.arrive(completion);
}
void ScriptedRdma::remove_device(bool told) {
  removed_ = true;
  if (told) tell_removal();
  for (const auto& link : links_)
    if (link->channel.fd > 0 && link->completions.fd > 0) ::eventfd_write(link->completions.fd, 1);
}
void ScriptedRdma::tell_removal() {
  for (const auto& link : links_)
    if (link->channel.fd > 0) link->say(RDMA_CM_EVENT_DEVICE_REMOVAL);
}
const std::string& ScriptedRdma::received(std::size_t link) const {
  return links_.at(link)->received;
}
std::size_t ScriptedRdma::notices(std::size_t link) const {
  return links_.at(link)->notices;
}
std::size_t ScriptedRdma::keepalives(std::size_t link) const {
  return links_.at(link)->keepalives;
}

namespace {

int poll_queue(ibv_cq* queue, int most, ibv_wc* completions) {
  if (Library::in_vain()) return 0;
  Link& link = Library::link_of(queue, &Link::queue);
  int count = 0;
  for (; count < most && !link.done.empty(); ++count) {
    completions[count] = link.done.front();
    link.done.pop_front();
  }
  return count;
}

int arm_queue(ibv_cq* queue, int) {
  if (Library::in_vain()) return EIO;
  Library::link_of(queue, &Link::queue).armed = true;
  return 0;
}

int post_send(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr**) {
  if (Library::removed()) return EIO;
  Library::link_of(pair, &Link::pair).hear(*request);
  return 0;
}

int post_receive(ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr**) {
  if (Library::removed()) return EIO;
  Link& link = Library::link_of(pair, &Link::pair);
  link.receives.push_back(*request);
  link.receive_pieces.push_back(*request->sg_list);
  return 0;
}

}  // namespace

}  // namespace keyferry::test

using keyferry::test::Library;
using keyferry::test::Link;
using Step = keyferry::test::ScriptedRdma::Step;

// librdmacm

rdma_event_channel* rdma_create_event_channel() {
  Library::made();
  Link& link = Library::add();
  link.channel.fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  return &link.channel;
}
void rdma_destroy_event_channel(rdma_event_channel* channel) {
  ::close(std::exchange(channel->fd, -1));
  Library::destroyed();
}
int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space) {
  Library::made();
  Link& link = Library::link_of(channel, &Link::channel);
  link.context.ops.poll_cq = keyferry::test::poll_queue;
  link.context.ops.req_notify_cq = keyferry::test::arm_queue;
  link.context.ops.post_send = keyferry::test::post_send;
  link.context.ops.post_recv = keyferry::test::post_receive;
  link.context.num_comp_vectors = Library::script().vectors;
  link.id.channel = channel;
  link.id.context = context;
  link.id.verbs = &link.context;
  *id = &link.id;
  return 0;
}
int rdma_destroy_id(rdma_cm_id*) {
  return Library::destroyed();
}
int rdma_resolve_addr(rdma_cm_id* id, sockaddr*, sockaddr*, int) {
  return Library::step(Library::link_of(id, &Link::id), Step::kAddress, RDMA_CM_EVENT_ADDR_RESOLVED);
}
int rdma_resolve_route(rdma_cm_id* id, int) {
  return Library::step(Library::link_of(id, &Link::id), Step::kRoute, RDMA_CM_EVENT_ROUTE_RESOLVED);
}
int rdma_connect(rdma_cm_id* id, rdma_conn_param*) {
  return Library::step(Library::link_of(id, &Link::id), Step::kConnect, RDMA_CM_EVENT_ESTABLISHED);
}
int rdma_disconnect(rdma_cm_id* id) {
  if (Library::removed()) return keyferry::test::failed(ENODEV);
  if (!Library::script().says_farewell) return 0;
  Link& link = Library::link_of(id, &Link::id);
  link.flush();
  link.say(RDMA_CM_EVENT_DISCONNECTED);
  return 0;
}
int rdma_create_qp(rdma_cm_id* id, ibv_pd*, ibv_qp_init_attr*) {
  Library::made();
  Link& link = Library::link_of(id, &Link::id);
  link.pair.context = &link.context;
  id->qp = &link.pair;
  return 0;
}
void rdma_destroy_qp(rdma_cm_id* id) {
  id->qp = nullptr;
  Library::destroyed();
}
int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  Link& link = Library::link_of(channel, &Link::channel);
  if (!keyferry::test::take_one(channel->fd)) return -1;
  Library::made();
  *event = new rdma_cm_event{};
  (*event)->id = &link.id;
  (*event)->event = link.events.front();
  link.events.pop_front();
  return 0;
}
int rdma_ack_cm_event(rdma_cm_event* event) {
  delete event;
  return Library::destroyed();
}
const char* rdma_event_str(rdma_cm_event_type) {
  return "event";
}

// libibverbs

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  Library::made();
  Link& link = Library::link_of(context, &Link::context);
  link.domain.context = context;
  return &link.domain;
}
int ibv_dealloc_pd(ibv_pd*) {
  return Library::destroyed();
}
ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  Library::made();
  Link& link = Library::link_of(context, &Link::context);
  link.completions.context = context;
  link.completions.fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  return &link.completions;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  ::close(std::exchange(channel->fd, -1));
  return Library::destroyed();
}
ibv_cq* ibv_create_cq(ibv_context* context, int, void* user, ibv_comp_channel* channel, int vector) {
  Library::made();
  Library::script().vectors_taken.push_back(vector);
  Link& link = Library::link_of(context, &Link::context);
  link.queue.context = context;
  link.queue.channel = channel;
  link.queue.cq_context = user;
  return &link.queue;
}
int ibv_destroy_cq(ibv_cq*) {
  return Library::destroyed();
}
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void**) {
  if (Library::removed()) return keyferry::test::failed(Library::script().descriptor_fails ? EIO : EAGAIN);
  if (!keyferry::test::take_one(channel->fd)) return -1;
  *queue = &Library::link_of(channel, &Link::completions).queue;
  return 0;
}
void ibv_ack_cq_events(ibv_cq*, unsigned) {}
#undef ibv_reg_mr
ibv_mr* ibv_reg_mr(ibv_pd*, void*, std::size_t, int) {
  Library::made();
  return new ibv_mr{};
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd*, void*, std::size_t, std::uint64_t, unsigned) {
  Library::made();
  return new ibv_mr{};
}
int ibv_dereg_mr(ibv_mr* region) {
  delete region;
  return Library::destroyed();
}
const char* ibv_wc_status_str(ibv_wc_status) {
  return "status";
}
