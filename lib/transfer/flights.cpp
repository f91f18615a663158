#include "transfer/flights.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace keyferry::transfer {

namespace {

FetchResult without_value(GetResult result) {
  switch (result.kind) {
    case GetResult::Kind::kMissing:
      return {FetchResult::Kind::kMissing, {}, {}};
    case GetResult::Kind::kRefused:
      return {FetchResult::Kind::kRefused, std::move(result.text), {}};
    case GetResult::Kind::kRepeat:
      // The one text that says so and that comes before the first byte moves (blob-rdma spec 2.2).
      if (result.text == "window") return {FetchResult::Kind::kOutgrown, std::move(result.text), {}};
      return {FetchResult::Kind::kRepeat, std::move(result.text), {}};
    default:
      return {FetchResult::Kind::kLost, std::move(result.text), {}};
  }
}

}  // namespace

void Flights::fetch(std::uint64_t ticket, FetchRequest request, base::Executor& back, std::shared_ptr<FetchSink> sink) {
  base::Executor* const hash_on = request.hash_on != nullptr ? request.hash_on : &back;
  Waiter waiter{ticket, request.client, &back, hash_on, std::make_shared<Receiver>(std::move(sink))};
  if (stopping_) return tell(std::move(waiter), {FetchResult::Kind::kRepeat, "stopping", {}});
  const Key key{request.identity, request.key};
  const auto found = lines_.find(key);
  Held flight = found != lines_.end() ? joinable(found->second, key) : nullptr;
  if (flight) {
    metrics_.joined(flight != found->second.next);
  } else {
    flight = begin(ticket, std::move(request));
  }
  if (!flight->machine.in(FlightState::kLeasing)) back.post([to = waiter.receiver] { to->leased(); });
  flight->waiters.push_back(std::move(waiter));
  by_ticket_[ticket] = std::move(flight);
}

/// Null if a new flight has to begin.
Flights::Held Flights::joinable(const Line& line, const Key& key) const {
  const std::string& name = key.second;
  const bool same = line.recent && marks_.immutable(name) && line.recent->marks == marks_.state(name);
  // One that all have left is on its way to a fence.
  if (same && !line.recent->waiters.empty()) return line.recent;
  return line.next;
}

Flights::Held Flights::begin(std::uint64_t number, FetchRequest request) {
  auto flight = std::make_shared<Flight>();
  flight->number = number;
  flight->key = Key{std::move(request.identity), std::move(request.key)};
  lines_[flight->key].next = flight;
  ++live_;
  // Whole regions: they are leased anyway, and a value that has grown a little still fits.
  const std::uint64_t rounded = (request.length + sizes_.region - 1) / sizes_.region * sizes_.region;
  const std::uint64_t window = std::max(request.length, std::min(rounded, sizes_.largest));
  ground_.ask_for_lease(number, request.client, window, [this, weak = std::weak_ptr(flight)](base::Result<Loan> loan) {
    if (const Held self = weak.lock()) leased(self, std::move(loan));
  });
  return flight;
}

void Flights::leased(const Held& flight, base::Result<Loan> loan) {
  // Given up while the answer was on its way: the loan returns by itself.
  if (!flight->machine.in(FlightState::kLeasing)) return;
  if (!loan) return end(flight, {FetchResult::Kind::kNoRoom, loan.error().message, {}});
  if (stopping_) return end(flight, {FetchResult::Kind::kRepeat, "stopping", {}});
  flight->loan = std::move(*loan);
  flight->machine.move(FlightState::kBehind);
  for (const Waiter& waiter : flight->waiters) waiter.back->post([to = waiter.receiver] { to->leased(); });
  advance(flight->key);
}

/// Sends the next flight on its way if nothing holds it.
void Flights::advance(const Key& key) {
  const auto found = lines_.find(key);
  if (found == lines_.end()) return;
  const Line& line = found->second;
  const bool lane_taken = line.recent && line.recent->machine.in(FlightState::kOnLane);
  if (line.next && line.next->machine.in(FlightState::kBehind) && !lane_taken) return submit(line.next);
  if (!line.next && !line.recent) lines_.erase(found);
}

void Flights::submit(const Held& flight) {
  auto transfer = std::make_unique<Transfer>();
  transfer->number = flight->number;
  transfer->op = Op::kGet;
  transfer->identity = flight->key.first;
  transfer->key = flight->key.second;
  transfer->loan = std::move(flight->loan);
  transfer->back = &executor_;
  transfer->on_posted = [this, weak = std::weak_ptr(flight)] {
    if (const Held self = weak.lock()) posted(self);
  };
  transfer->get_done = [this, flight](GetResult result) { landed(flight, std::move(result)); };
  flight->machine.move(FlightState::kQueued);
  ground_.submit(std::move(transfer));
}

/// Its command is about to be written.
void Flights::posted(const Held& flight) {
  flight->marks = marks_.state(flight->key.second);
  // Written once more, after a reply that said that it had not run: what counts is the later time.
  if (flight->machine.in(FlightState::kOnLane)) return;
  flight->machine.move(FlightState::kOnLane);
  Line& line = lines_[flight->key];
  if (line.next == flight) line.next.reset();
  line.recent = flight;
}

/// How a waiter hears of the value where that was hashed: at once if it is called there anyway.
SlicedCheck::Right Flights::hand_over(const Waiter& waiter) {
  auto give = [to = waiter.receiver](const SharedValue& value) { to->fetched({FetchResult::Kind::kValue, {}, value}); };
  if (waiter.hash_on == waiter.back) return give;
  return [back = waiter.back, give = std::move(give)](const SharedValue& value) {
    back->post([give, value] { give(value); });
  };
}

void Flights::landed(const Held& flight, GetResult result) {
  if (result.kind != GetResult::Kind::kLanded) return end(flight, without_value(std::move(result)));
  if (flight->waiters.empty()) return end(flight, {});
  flight->machine.move(FlightState::kChecking);
  const Waiter& first = flight->waiters.front();
  flight->hears_first = first.ticket;
  flight->check =
      SlicedCheck::begin(std::move(result.value), SlicedCheck::kSlice, *first.hash_on, executor_, hand_over(first),
                         [this, weak = std::weak_ptr(flight)](base::Result<SharedValue> value, base::Duration took) {
                           if (const Held self = weak.lock()) checked(self, std::move(value), took);
                         });
  // The lane is free: who waits behind need not wait for the hashing.
  advance(flight->key);
}

void Flights::checked(const Held& flight, base::Result<SharedValue> value, base::Duration took) {
  if (!flight->machine.in(FlightState::kChecking)) return;
  metrics_.verified(took);
  if (value) return end(flight, {FetchResult::Kind::kValue, {}, std::move(*value)}, flight->hears_first);
  metrics_.mismatch();
  spdlog::error("a value from the fabric was wrong and is read again as BLOB.TCP_GET: {}", value.error().message);
  end(flight, {FetchResult::Kind::kRepeat, "checksum", {}});
}

void Flights::leave(std::uint64_t ticket) {
  remove(ticket, Farewell::kWithGrace);
}

void Flights::remove(std::uint64_t ticket, Farewell farewell) {
  const auto found = by_ticket_.find(ticket);
  if (found == by_ticket_.end()) return;
  const Held flight = std::move(found->second);
  by_ticket_.erase(found);
  const auto waiter = std::find_if(flight->waiters.begin(), flight->waiters.end(),
                                   [ticket](const Waiter& one) { return one.ticket == ticket; });
  tell(std::move(*waiter), {FetchResult::Kind::kLeft, {}, {}});
  flight->waiters.erase(waiter);
  if (flight->waiters.empty()) give_up(flight, farewell);
}

void Flights::end_client(std::uint64_t client) {
  std::vector<std::uint64_t> tickets;
  for (const auto& [ticket, flight] : by_ticket_) {
    const bool theirs = std::any_of(
        flight->waiters.begin(), flight->waiters.end(),
        [ticket = ticket, client](const Waiter& one) { return one.ticket == ticket && one.client == client; });
    if (theirs) tickets.push_back(ticket);
  }
  for (const std::uint64_t ticket : tickets) remove(ticket, Farewell::kAtOnce);
}

void Flights::give_up(const Held& flight, Farewell farewell) {
  switch (flight->machine.state()) {
    case FlightState::kLeasing:
      ground_.cancel_lease(flight->number);
      return end(flight, {});
    case FlightState::kBehind:
      flight->loan = {};
      return end(flight, {});
    case FlightState::kQueued:
      // Answered at once, but not inside the call: nobody may join it meanwhile.
      lines_[flight->key].next.reset();
      return ground_.abandon(flight->number, farewell);
    case FlightState::kOnLane:
      return ground_.abandon(flight->number, farewell);
    case FlightState::kChecking:
      flight->check->cancel();
      return end(flight, {});
    case FlightState::kOver:
      return;
  }
}

void Flights::stop() {
  stopping_ = true;
  std::vector<Held> behind;
  for (const auto& [key, line] : lines_) {
    if (line.next && line.next->machine.in(FlightState::kBehind)) behind.push_back(line.next);
  }
  for (const Held& flight : behind) {
    flight->loan = {};
    end(flight, {FetchResult::Kind::kRepeat, "stopping", {}});
  }
}

/// Everybody who still waits gets the result; the next flight of the key may go.
void Flights::end(const Held& flight, const FetchResult& result, std::uint64_t has_heard) {
  flight->machine.move(FlightState::kOver);
  --live_;
  flight->check.reset();
  for (Waiter& waiter : std::exchange(flight->waiters, {})) {
    by_ticket_.erase(waiter.ticket);
    if (waiter.ticket != has_heard) tell(std::move(waiter), result);
  }
  if (const auto found = lines_.find(flight->key); found != lines_.end()) {
    if (found->second.recent == flight) found->second.recent.reset();
    if (found->second.next == flight) found->second.next.reset();
  }
  advance(flight->key);
}

void Flights::tell(Waiter waiter, FetchResult result) {
  base::Executor& back = *waiter.back;
  back.post(
      [to = std::move(waiter.receiver), result = std::move(result)]() mutable { to->fetched(std::move(result)); });
}

}  // namespace keyferry::transfer
