#include "gateway/offload_start.h"

#include <string>
#include <utility>
#include <vector>

#include "gateway/bulk_exchange.h"
#include "gateway/offload_mget.h"
#include "gateway/offload_parts.h"
#include "gateway/offload_set.h"
#include "gateway/session.h"
#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

OffloadCommand::Plan plan_of(const Offloaded& offloaded) {
  OffloadCommand::Plan plan;
  plan.route = offloaded.route;
  plan.keys.assign(offloaded.keys.begin(), offloaded.keys.end());
  plan.object_error = offloaded.object_error;
  return plan;
}

std::shared_ptr<Operation> mget(Session& session, SlotTag tag, std::span<const std::string_view> args) {
  std::vector<OffloadMget::Key> keys;
  for (const std::string_view key : args.subspan(1))
    keys.push_back({std::string(key), is_offloaded(key, session.worker().options.offload)});
  return std::make_shared<OffloadMget>(session, tag, std::move(keys));
}

/// Why no object can be made of the value, so that it goes as a plain SET; empty: it can.
std::string_view reason_for_string(Session& session, std::uint64_t length) {
  const transfer::Engine& engine = session.worker().engine;
  const std::string_view reason = engine.unavailable_reason(session.client().identity);
  // Without a session there is still BLOB.TCP_SET; without the module there are no objects, without memory no lease.
  if (reason == "no_module" || reason == "registration_failed") return reason;
  if (length > engine.largest_value()) return "larger_than_half_the_pool";
  return {};
}

}  // namespace

std::shared_ptr<Operation> offloaded_command(Session& session, SlotTag tag, const Offloaded& offloaded,
                                             std::span<const std::string_view> args, bool alone) {
  if (offloaded.route == OffloadRoute::kMget) return mget(session, tag, args);
  OffloadCommand::Plan plan = plan_of(offloaded);
  std::string command;
  resp::append_command(command, args);
  if (offloaded.route == OffloadRoute::kGetEx) plan.options.assign(args.begin() + 2, args.end());
  if (alone && offloaded.route != OffloadRoute::kNeverOnObject) {
    auto exchange = std::make_shared<BulkExchange>(session, tag, BulkSource::whole(std::move(command)));
    exchange->continue_to(std::make_shared<AskWhy>(session, tag, std::move(plan)));
    return exchange;
  }
  plan.command = std::move(command);
  return std::make_shared<OffloadCommand>(session, tag, std::move(plan));
}

std::shared_ptr<Operation> offloaded_stream(Session& session, SlotTag tag, const Offloaded& offloaded) {
  auto exchange = std::make_shared<BulkExchange>(session, tag, BulkSource::from_input());
  exchange->continue_to(std::make_shared<AskWhy>(session, tag, plan_of(offloaded)));
  return exchange;
}

std::shared_ptr<Operation> offloaded_set(Session& session, SlotTag tag, std::string_view key) {
  const resp::RequestParser& parser = session.parser();
  const std::uint64_t length = parser.body_length();
  if (length < session.worker().options.threshold) return OffloadSet::streamed(session, tag, std::string(key), {});
  if (const std::string_view reason = reason_for_string(session, length); !reason.empty())
    return OffloadSet::streamed(session, tag, std::string(key), reason);
  session.classify(tag, CommandClass::kTransferSet);
  return std::make_shared<OffloadSet>(session, tag, std::string(key), length, !session.has_undelivered(),
                                      parser.argc() > 3);
}

}  // namespace keyferry::gateway
