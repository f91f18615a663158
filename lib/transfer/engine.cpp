#include "transfer/engine.h"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <unordered_map>
#include <utility>

#include "memory/lease_queue.h"
#include "memory/pool.h"
#include "memory/region_auditor.h"
#include "transfer/engine_status.h"
#include "transfer/flights.h"
#include "transfer/lane_pool.h"
#include "transfer/lease_book.h"
#include "transfer/loan_desk.h"
#include "transfer/registrations.h"
#include "transfer/transfers.h"
#include "transfer/value_layout.h"

namespace keyferry::transfer {

namespace {

constexpr const char* kStopping = "keyferry: the gateway is stopping";

base::TimePoint now() {
  return base::Clock::steady().now();
}

upstream::ConnectOptions lane_connection(upstream::ConnectOptions options) {
  // What a lane's replies can be looks the same in both protocols, and RESP2 has no pushes.
  options.protocol = resp::Protocol::kResp2;
  return options;
}

std::uint64_t largest_lease(const memory::PoolMemory& memory) {
  return std::min<std::uint64_t>(memory.bytes().size() / 2, memory::kMaxRegionsPerLease * memory.region_bytes());
}

}  // namespace

/// All of the engine's state; the engine's thread alone touches it, but for `availability`, `tickets`, `marks`,
/// `desk` and `memory_wanted`, which it writes and workers read. Owned by the Engine; messages to it hold it weakly.
struct Engine::Impl final : std::enable_shared_from_this<Impl>,
                            LeaseBook::Listener,
                            Registrations::Listener,
                            Flights::Ground {
  /// Somebody waits for a lease, or its answer is being made.
  struct Request {
    memory::ClientId client{};
    memory::Ticket ticket{};
    base::TimePoint since;
    base::Executor* back = nullptr;
    base::UniqueFunction<void(base::Result<Loan>)> done;
    Layout layout = Layout::kFromStart;
  };

  Impl(base::Loop& engine_loop, EngineOptions engine_options, std::vector<fabric::Fabric*> the_fabrics,
       std::string no_fabric_reason, memory::PoolMemory& memory, telemetry::Registry& registry)
      : loop(engine_loop),
        options(std::move(engine_options)),
        fabrics(std::move(the_fabrics)),
        availability(!fabrics.empty()           ? std::string()
                     : no_fabric_reason.empty() ? std::string("no_fabric")
                                                : std::move(no_fabric_reason)),
        largest(largest_lease(memory)),
        marks(std::move(options.immutable)),
        pool(memory.bytes(), memory.region_bytes()),
        queue(pool, options.pool_wait),
        book(pool, *this),
        metrics(registry, options.connect.address.text(), options.connect.tls ? "tls" : "tcp"),
        flights(*this, engine_loop, marks, metrics, {memory.region_bytes(), largest}),
        lease_timer(engine_loop),
        audit_timer(engine_loop) {
    options.connect = lane_connection(std::move(options.connect));
    if (options.audit_pool) {
      auditor.emplace(memory.bytes(), memory.region_bytes(), base::Clock::steady(),
                      [](const std::string& what) { spdlog::critical("the pool's audit: {}", what); });
      pool.audit_by(*auditor);
    }
    if (!fabrics.empty()) registrations = std::make_unique<Registrations>(loop, fabrics, pool, metrics, *this);
    transfers =
        std::make_unique<Transfers>(Transfers::Parts{loop, book, metrics, availability, registrations.get()}, options);
    if (fabrics.empty()) return;
    lanes = std::make_unique<LanePool>(
        loop, fabrics, LanePool::Options{options.connect, options.lanes, options.warm, options.lane_check}, metrics,
        availability, *transfers);
    transfers->set_lanes(lanes.get());
  }

  void open_desk() {
    desk = std::make_shared<LoanDesk>(loop, [weak = weak_from_this()](memory::LeaseId lease) {
      if (const auto self = weak.lock()) self->book.loan_returned(lease);
    });
  }

  void start(base::Executor& back, base::Task ready);
  void ready_half();
  void lease(std::uint64_t number, std::uint64_t length, bool patient, Request request);
  void lease_answered(std::uint64_t number, base::Result<memory::Lease> result);
  void lease_at_once(std::uint64_t length, Request request);
  void give(Request& request, memory::Lease lease);
  void cancel_lease(std::uint64_t number) override;
  void end_client(memory::ClientId client);
  static void answer_canceled(Request request, const char* why);
  void show_pool();
  void arm_lease_timer();
  void arm_audit_timer();
  std::string status() const;
  void stop(base::Executor& back, base::Task done);

  void ask_for_lease(std::uint64_t number, std::uint64_t client, std::uint64_t length,
                     base::UniqueFunction<void(base::Result<Loan>)> done) override {
    // Others may come to share it, so it is no memory of that client's; but it waits its turn as if it were.
    lease(number, length, true, {shared_by(client), {}, {}, &loop, std::move(done), Layout::kBehindLead});
  }
  void submit(std::unique_ptr<Transfer> transfer) override { transfers->submit(std::move(transfer)); }
  void abandon(std::uint64_t number, Farewell farewell) override { transfers->abandon(number, farewell); }

  void regions_moved() override;
  void flight_changed() override { show_pool(); }
  void not_held(memory::ClientId client, std::uint64_t bytes) override { queue.gave_back(client, bytes, now()); }
  bool somebody_waits() const override { return queue.depth() != 0; }
  void needs_registration(const std::vector<memory::RegionIndex>& regions) override { registrations->renew(regions); }
  void first_registered() override { ready_half(); }
  void none_registered() override {
    availability.set_local("registration_failed");
    ready_half();
  }

  base::Loop& loop;
  EngineOptions options;
  std::vector<fabric::Fabric*> fabrics;
  Availability availability;
  const std::uint64_t largest;
  std::atomic<std::uint64_t> tickets{1};
  std::atomic<bool> memory_wanted{false};
  std::shared_ptr<LoanDesk> desk;

  WriteMarks marks;
  memory::Pool pool;
  /// Only where a test asked for it.
  std::optional<memory::RegionAuditor> auditor;
  memory::LeaseQueue queue;
  std::unordered_map<std::uint64_t, Request> requests;
  LeaseBook book;
  EngineMetrics metrics;
  Flights flights;
  std::unique_ptr<Registrations> registrations;
  std::unique_ptr<Transfers> transfers;
  std::unique_ptr<LanePool> lanes;
  base::Timer lease_timer;
  base::Timer audit_timer;
  bool lease_timer_set = false;
  /// Registration and lanes that have yet to say that start() is through.
  int starting = 0;
  base::Executor* ready_back = nullptr;
  base::Task ready;
  bool stopping = false;
};

void Engine::Impl::start(base::Executor& back, base::Task when_ready) {
  ready_back = &back;
  ready = std::move(when_ready);
  if (fabrics.empty()) {
    pool.all_registered();
    regions_moved();
    starting = 1;
    return ready_half();
  }
  starting = 2;
  registrations->start();
  lanes->start([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->ready_half();
  });
}

void Engine::Impl::ready_half() {
  if (starting == 0 || --starting != 0 || !ready) return;
  ready_back->post(std::exchange(ready, nullptr));
}

void Engine::Impl::lease(std::uint64_t number, std::uint64_t length, bool patient, Request request) {
  if (stopping) return answer_canceled(std::move(request), kStopping);
  request.since = now();
  const memory::ClientId client = request.client;
  if (!patient) return lease_at_once(length, std::move(request));
  requests.emplace(number, std::move(request));
  const memory::Ticket ticket =
      queue.request(client, length, now(),
                    [this, number](base::Result<memory::Lease> result) { lease_answered(number, std::move(result)); });
  // Answered already if it is not there any more.
  if (const auto found = requests.find(number); found != requests.end()) found->second.ticket = ticket;
  show_pool();
  arm_lease_timer();
}

void Engine::Impl::lease_at_once(std::uint64_t length, Request request) {
  std::optional<memory::Lease> lease = queue.try_now(request.client, length);
  if (lease) {
    give(request, std::move(*lease));
  } else {
    request.back->post([done = std::move(request.done), length]() mutable {
      done(base::Error{"keyferry: no room in the pool for " + std::to_string(length) + " bytes at once", EAGAIN});
    });
  }
  show_pool();
}

void Engine::Impl::lease_answered(std::uint64_t number, base::Result<memory::Lease> result) {
  const auto found = requests.find(number);
  Request request = std::move(found->second);
  requests.erase(found);
  if (result) return give(request, std::move(*result));
  request.back->post([done = std::move(request.done), error = result.error()]() mutable { done(std::move(error)); });
}

void Engine::Impl::give(Request& request, memory::Lease lease) {
  Loan loan(desk, static_cast<std::uint64_t>(lease.id), spans_of(pool, lease, request.layout), lease.length);
  book.granted(std::move(lease), request.client, now() - request.since);
  request.back->post([done = std::move(request.done), loan = std::move(loan)]() mutable { done(std::move(loan)); });
}

void Engine::Impl::cancel_lease(std::uint64_t number) {
  const auto found = requests.find(number);
  if (found == requests.end()) return;
  queue.cancel(found->second.ticket);
  // Dropped where it was made: it may hold what belongs to that thread.
  base::Executor& back = *found->second.back;
  back.post([done = std::move(found->second.done)] {});
  requests.erase(found);
  regions_moved();
}

void Engine::Impl::end_client(memory::ClientId client) {
  std::vector<std::uint64_t> asked;
  for (const auto& [number, request] : requests) {
    if (request.client == client) asked.push_back(number);
  }
  for (const std::uint64_t number : asked) {
    const auto found = requests.find(number);
    queue.cancel(found->second.ticket);
    answer_canceled(std::move(found->second), "keyferry: this client was ended");
    requests.erase(found);
  }
  flights.end_client(static_cast<std::uint64_t>(client));
  transfers->end_client(client);
  regions_moved();
}

void Engine::Impl::answer_canceled(Request request, const char* why) {
  request.back->post([done = std::move(request.done), why]() mutable { done(base::Error{why, ECANCELED}); });
}

void Engine::Impl::show_pool() {
  metrics.pool(pool.stats());
  memory_wanted.store(queue.depth() != 0, std::memory_order_relaxed);
}

void Engine::Impl::arm_lease_timer() {
  // One that fires too early finds nothing and is set anew; none can be due before it.
  if (lease_timer_set) return;
  const std::optional<base::TimePoint> oldest = queue.oldest();
  if (!oldest) return;
  lease_timer_set = true;
  lease_timer.start(*oldest + options.pool_wait - now(), [this] {
    lease_timer_set = false;
    queue.expire(now());
    show_pool();
    arm_lease_timer();
  });
}

void Engine::Impl::regions_moved() {
  queue.pump();
  if (!stopping) arm_lease_timer();
  show_pool();
  if (auditor) arm_audit_timer();
}

void Engine::Impl::arm_audit_timer() {
  const std::optional<base::TimePoint> due = auditor->due();
  if (!due) return;
  audit_timer.start(*due - now(), [this] {
    auditor->check_fenced();
    arm_audit_timer();
  });
}

std::string Engine::Impl::status() const {
  nlohmann::json page = status_of_pool(pool, book);
  page["node"] = options.connect.address.text();
  page["available"] = availability.available();
  page["unavailable_reason"] = std::string(availability.reason());
  page["provider"] = fabrics.empty() ? "" : fabrics.front()->traits().provider;
  page["fabrics"] = status_of_fabrics(fabrics);
  page["dialect"] = lanes ? std::string(lanes->dialect().name) : "";
  page["registered_regions"] = registrations ? registrations->registered() : 0;
  page["set_with_crc"] = transfers->crc_supported();
  page["waiting"] = {{"transfers", transfers->waiting()}, {"leases", queue.depth()}, {"flights", flights.size()}};
  page["lanes"] = lanes ? status_of_lanes(*lanes, *transfers) : nlohmann::json::array();
  if (auditor) page["audit"] = status_of_audit(*auditor);
  page["illegal_transitions"] = illegal_transitions() + pool.illegal_transitions();
  return page.dump();
}

void Engine::Impl::stop(base::Executor& back, base::Task done) {
  stopping = true;
  availability.set_local("stopping");
  lease_timer.cancel();
  for (auto& [number, request] : std::exchange(requests, {})) {
    queue.cancel(request.ticket);
    answer_canceled(std::move(request), kStopping);
  }
  flights.stop();
  transfers->stop();
  if (fabrics.empty()) return back.post(std::move(done));
  registrations->halt();
  lanes->stop([weak = weak_from_this(), &back, done = std::move(done)]() mutable {
    const auto self = weak.lock();
    if (!self) return;
    self->registrations->stop([&back, done = std::move(done)]() mutable { back.post(std::move(done)); });
  });
}

Engine::Engine(base::Loop& loop, EngineOptions options, std::vector<fabric::Fabric*> fabrics,
               std::string no_fabric_reason, memory::PoolMemory& memory, telemetry::Registry& metrics)
    : impl_(std::make_shared<Impl>(loop, std::move(options), std::move(fabrics), std::move(no_fabric_reason), memory,
                                   metrics)) {
  impl_->open_desk();
}

Engine::~Engine() {
  impl_->desk->close();
}

// Messages hold the state weakly: one that is still queued when the engine has gone does nothing.
void Engine::start(base::Executor& back, base::Task ready) {
  impl_->loop.post([weak = std::weak_ptr(impl_), &back, ready = std::move(ready)]() mutable {
    if (const auto impl = weak.lock()) impl->start(back, std::move(ready));
  });
}

std::string_view Engine::unavailable_reason() const {
  return impl_->availability.reason();
}
std::string_view Engine::unavailable_reason(const upstream::Identity& identity) const {
  return impl_->availability.reason_for(identity.is_default());
}
std::uint64_t Engine::largest_value() const {
  return impl_->largest;
}

std::uint64_t Engine::lease(std::uint64_t client, std::uint64_t length, bool patient, base::Executor& back,
                            base::UniqueFunction<void(base::Result<Loan>)> done) {
  const std::uint64_t number = impl_->tickets.fetch_add(1, std::memory_order_relaxed);
  impl_->loop.post(
      [weak = std::weak_ptr(impl_), number, client, length, patient, &back, done = std::move(done)]() mutable {
        if (const auto impl = weak.lock())
          impl->lease(number, length, patient, {memory::ClientId{client}, {}, {}, &back, std::move(done)});
      });
  return number;
}

bool Engine::memory_wanted() const {
  return impl_->memory_wanted.load(std::memory_order_relaxed);
}

void Engine::cancel_lease(std::uint64_t ticket) {
  impl_->loop.post([weak = std::weak_ptr(impl_), ticket] {
    if (const auto impl = weak.lock()) impl->cancel_lease(ticket);
  });
}

void Engine::set(std::string key, std::uint32_t crc, Loan loan, base::Executor& back,
                 base::UniqueFunction<void(SetResult)> done, StoreExtras extras, upstream::Identity identity) {
  auto transfer = std::make_unique<Transfer>();
  transfer->number = impl_->tickets.fetch_add(1, std::memory_order_relaxed);
  if (!extras.empty()) transfer->steps.emplace(key, std::move(extras));
  transfer->op = Op::kSet;
  transfer->identity = std::move(identity);
  transfer->key = std::move(key);
  transfer->crc = crc;
  transfer->loan = std::move(loan);
  transfer->back = &back;
  transfer->set_done = std::move(done);
  impl_->loop.post([weak = std::weak_ptr(impl_), transfer = std::move(transfer)]() mutable {
    if (const auto impl = weak.lock()) impl->transfers->submit(std::move(transfer));
  });
}

void Engine::end_client(std::uint64_t client) {
  impl_->loop.post([weak = std::weak_ptr(impl_), client] {
    if (const auto impl = weak.lock()) impl->end_client(memory::ClientId{client});
  });
}

std::uint64_t Engine::fetch(FetchRequest request, base::Executor& back, std::shared_ptr<FetchSink> sink) {
  const std::uint64_t number = impl_->tickets.fetch_add(1, std::memory_order_relaxed);
  impl_->loop.post(
      [weak = std::weak_ptr(impl_), number, request = std::move(request), &back, sink = std::move(sink)]() mutable {
        if (const auto impl = weak.lock()) impl->flights.fetch(number, std::move(request), back, std::move(sink));
      });
  return number;
}

void Engine::leave(std::uint64_t ticket) {
  impl_->loop.post([weak = std::weak_ptr(impl_), ticket] {
    if (const auto impl = weak.lock()) impl->flights.leave(ticket);
  });
}

WriteMarks& Engine::writes() {
  return impl_->marks;
}

void Engine::status(base::Executor& back, base::UniqueFunction<void(std::string)> done) {
  impl_->loop.post([weak = std::weak_ptr(impl_), &back, done = std::move(done)]() mutable {
    const auto impl = weak.lock();
    if (!impl) return;
    back.post([done = std::move(done), page = impl->status()]() mutable { done(std::move(page)); });
  });
}

void Engine::stop(base::Executor& back, base::Task done) {
  impl_->loop.post([weak = std::weak_ptr(impl_), &back, done = std::move(done)]() mutable {
    if (const auto impl = weak.lock()) impl->stop(back, std::move(done));
  });
}

}  // namespace keyferry::transfer
