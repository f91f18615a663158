#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "tests/unit/transfer/rig.h"
#include "transfer/checked_value.h"
#include "transfer/fetch.h"

namespace keyferry::test {
namespace {

using transfer::FetchResult;
using Kind = transfer::FetchResult::Kind;

/// A client that asked.
class Asker final : public transfer::FetchSink {
 public:
  void fetch_leased() override { leased = true; }
  void fetched(FetchResult one) override { result.emplace(std::move(one)); }

  std::uint64_t ticket = 0;
  bool leased = false;
  std::optional<FetchResult> result;
};

std::shared_ptr<Asker> ask(Rig& rig, const std::string& key, std::uint64_t length, std::string identity = {},
                           std::uint64_t client = 1) {
  auto asker = std::make_shared<Asker>();
  transfer::FetchRequest request;
  request.client = client;
  request.identity.user = std::move(identity);
  request.key = key;
  request.length = length;
  asker->ticket = rig.engine->fetch(std::move(request), rig.mail, asker);
  return asker;
}

void until_answered(Rig& rig, std::initializer_list<std::shared_ptr<Asker>> askers) {
  for (const auto& asker : askers) rig.mail.until([&] { return asker->result.has_value(); });
}

std::string bytes_of(const Asker& asker) {
  if (asker.result->kind != Kind::kValue) return "no value: " + asker.result->text;
  std::string bytes;
  for (const base::ConstBytes span : asker.result->value->spans()) bytes += base::as_text(span);
  return bytes;
}

std::size_t gets(const Rig& rig, const std::string& key, std::size_t connection = 0) {
  const auto commands = rig.server.commands(connection);
  return static_cast<std::size_t>(std::count_if(commands.begin(), commands.end(), [&](const Script::Command& command) {
    return command.size() > 1 && command[0] == "BLOB.RDMA_GET" && command[1] == key;
  }));
}

void immutable(transfer::EngineOptions& options) {
  options.immutable = {"fixed:"};
}

/// The lane answers nothing before go(), then one answer after the other.
Rig::Scripts after_go(std::vector<std::string> values) {
  return [values](ScriptedFabric& fabric) {
    Script script = Rig::lane().hold();
    for (const std::string& value : values) script.answer(give(fabric, value));
    return std::vector<Script>{script.until_closed()};
  };
}

TEST(EngineFlights, R54AnotherUsersGetOfTheSameKeySharesNothing) {
  const std::string ours = pattern(9000, 1), anns = pattern(8000, 2);
  Rig rig(
      [&](ScriptedFabric& fabric) {
        return std::vector<Script>{Rig::lane().hold().answer(give(fabric, ours)).until_closed(),
                                   Rig::lane().answer(give(fabric, anns)).until_closed()};
      },
      [](transfer::EngineOptions& options) {
        immutable(options);
        options.lanes = 2;
      });
  rig.start();
  const auto first = ask(rig, "fixed:key", ours.size());
  rig.fabric.wait_for_owed(1);
  const auto other = ask(rig, "fixed:key", anns.size(), "ann", 2);
  until_answered(rig, {other});
  EXPECT_EQ(bytes_of(*other), anns);
  rig.server.go();
  until_answered(rig, {first});
  EXPECT_EQ(bytes_of(*first), ours);
}

TEST(EngineFlights, GetsOfOneKeyThatWaitForALaneAreOneTransferAndOneLease) {
  const std::string bytes = pattern(9000, 1);
  Rig rig(after_go({pattern(10, 2), bytes}));
  rig.start();
  const auto busy = ask(rig, "busy", 10);
  rig.fabric.wait_for_owed(1);
  const auto first = ask(rig, "key", bytes.size());
  const auto second = ask(rig, "key", bytes.size());
  const auto third = ask(rig, "key", bytes.size());
  rig.until_status([](const nlohmann::json& page) { return page["waiting"]["transfers"] == 1; });
  rig.server.go();
  until_answered(rig, {busy, first, second, third});
  EXPECT_EQ(bytes_of(*first), bytes);
  EXPECT_EQ(second->result->value.get(), first->result->value.get()) << "by reference";
  EXPECT_EQ(third->result->value.get(), first->result->value.get());
  EXPECT_TRUE(first->leased && second->leased && third->leased);
  EXPECT_EQ(gets(rig, "key"), 1U);
  EXPECT_TRUE(rig.metric_has("keyferry_flights_joined_total{flight=\"waiting\"} 2"));
  EXPECT_TRUE(rig.metric_has("keyferry_transfers_total{op=\"get\",path=\"rdma\",outcome=\"ok\"} 2"));

  // The slowest holds the lease, and nothing but that.
  busy->result.reset();
  first->result.reset();
  second->result.reset();
  rig.until_regions("free", Rig::kRegions - 3);
  EXPECT_EQ(bytes_of(*third), bytes);
  third->result.reset();
  rig.until_regions("free", Rig::kRegions);
}

TEST(EngineFlights, AWrittenOneIsNotJoinedAndTheNextIsWrittenWhenItHasEnded) {
  const std::string old_bytes = pattern(5000, 1), new_bytes = pattern(5000, 2);
  Rig rig(after_go({old_bytes, new_bytes}), [](transfer::EngineOptions& options) { options.lanes = 2; });
  rig.start();
  const auto first = ask(rig, "key", 5000);
  rig.fabric.wait_for_owed(1);
  const auto second = ask(rig, "key", 5000);
  const auto third = ask(rig, "key", 5000);
  rig.mail.until([&] { return second->leased && third->leased; });
  const nlohmann::json page = rig.status();
  EXPECT_EQ(page["waiting"]["flights"], 2);
  EXPECT_EQ(page["waiting"]["transfers"], 0) << "it waits for the first, not for a lane";
  rig.server.go();
  until_answered(rig, {first, second, third});
  EXPECT_EQ(bytes_of(*first), old_bytes);
  EXPECT_EQ(bytes_of(*second), new_bytes);
  EXPECT_EQ(third->result->value.get(), second->result->value.get());
  EXPECT_EQ(gets(rig, "key"), 2U);
  EXPECT_EQ(rig.server.accepted(), 1U) << "no second lane for one key";
}

TEST(EngineFlights, UnderAnImmutablePrefixAWrittenOneIsJoined) {
  const std::string bytes = pattern(5000, 1);
  Rig rig(after_go({bytes}), immutable);
  rig.start();
  const auto first = ask(rig, "fixed:key", 5000);
  rig.fabric.wait_for_owed(1);
  const auto second = ask(rig, "fixed:key", 5000);
  rig.mail.until([&] { return second->leased; });
  rig.server.go();
  until_answered(rig, {first, second});
  EXPECT_EQ(bytes_of(*second), bytes);
  EXPECT_EQ(second->result->value.get(), first->result->value.get());
  EXPECT_EQ(gets(rig, "fixed:key"), 1U);
  EXPECT_TRUE(rig.metric_has("keyferry_flights_joined_total{flight=\"written\"} 1"));
}

TEST(EngineFlights, AWriteOfTheKeyInBetweenStartsANewOneUnderAnImmutablePrefixToo) {
  const std::string old_bytes = pattern(5000, 1), new_bytes = pattern(5000, 2);
  Rig rig(after_go({old_bytes, new_bytes}), immutable);
  rig.start();
  const auto first = ask(rig, "fixed:key", 5000);
  rig.fabric.wait_for_owed(1);
  const std::vector<std::string_view> args{"fixed:key"};
  rig.engine->writes().touch(rig.engine->writes().mark_of(args));
  const auto second = ask(rig, "fixed:key", 5000);
  rig.mail.until([&] { return second->leased; });
  rig.server.go();
  until_answered(rig, {first, second});
  EXPECT_EQ(bytes_of(*first), old_bytes);
  EXPECT_EQ(bytes_of(*second), new_bytes);
}

TEST(EngineFlights, WhoLeavesLeavesTheOthersAlone) {
  const std::string bytes = pattern(5000, 1);
  Rig rig(after_go({bytes}), immutable);
  rig.start();
  const auto first = ask(rig, "fixed:key", 5000);
  rig.fabric.wait_for_owed(1);
  const auto second = ask(rig, "fixed:key", 5000);
  rig.engine->leave(first->ticket);
  until_answered(rig, {first});
  EXPECT_EQ(first->result->kind, Kind::kLeft);
  rig.server.go();
  until_answered(rig, {second});
  EXPECT_EQ(bytes_of(*second), bytes);
  EXPECT_FALSE(rig.metric_has("keyferry_fences_total{reason=\"abandoned\"}"));
}

/// Somebody else's thread, as the engine sees it: runs at once and counts.
class Elsewhere final : public base::Executor {
 public:
  void post(base::Task task) override {
    ++posted;
    task();
  }
  std::atomic<int> posted = 0;
};

TEST(EngineFlights, AValueIsHashedWhereItsClientWantsThatAndToldWhereItAsked) {
  const std::string bytes = pattern(5000, 1);
  Elsewhere elsewhere;
  Rig rig(after_go({bytes}));
  rig.start();
  auto asker = std::make_shared<Asker>();
  transfer::FetchRequest request;
  request.key = "key";
  request.length = 5000;
  request.hash_on = &elsewhere;
  asker->ticket = rig.engine->fetch(std::move(request), rig.mail, asker);
  rig.fabric.wait_for_owed(1);
  rig.server.go();
  until_answered(rig, {asker});
  EXPECT_EQ(elsewhere.posted, 1) << "one slice";
  EXPECT_EQ(bytes_of(*asker), bytes);
}

TEST(EngineFlights, AClientThatIsEndedTakesNothingFromThoseWhoShareWithIt) {
  const std::string bytes = pattern(5000, 1);
  Rig rig(after_go({bytes}), immutable);
  rig.start();
  const auto first = ask(rig, "fixed:key", 5000);
  rig.fabric.wait_for_owed(1);
  const auto second = ask(rig, "fixed:key", 5000, {}, 2);
  rig.engine->end_client(1);
  until_answered(rig, {first});
  EXPECT_EQ(first->result->kind, Kind::kLeft);
  rig.server.go();
  until_answered(rig, {second});
  EXPECT_EQ(bytes_of(*second), bytes);
}

TEST(EngineFlights, AClientThatIsEndedIsFencedWithoutGraceIfNobodySharesWithIt) {
  Rig rig({Rig::lane().answer(say("")).until_closed()},
          [](transfer::EngineOptions& options) { options.orphan_grace = std::chrono::hours(1); });
  rig.start();
  const auto alone = ask(rig, "key", 5000);
  rig.fabric.wait_for_owed(1);
  rig.engine->end_client(1);
  until_answered(rig, {alone});
  EXPECT_EQ(alone->result->kind, Kind::kLeft);
  rig.until_regions("free", Rig::kRegions);
  EXPECT_TRUE(rig.metric_has("keyferry_fences_total{reason=\"client_ended\"} 1"));
}

TEST(EngineFlights, R95WhenTheLastHasLeftItIsFencedAfterItsGraceAndNobodyJoinsIt) {
  Rig rig({Rig::lane().answer(say("")).until_closed(), Rig::lane().answer(say("$-1\r\n")).until_closed()},
          [](transfer::EngineOptions& options) {
            immutable(options);
            options.orphan_grace = std::chrono::milliseconds(1);
          });
  rig.start();
  const auto first = ask(rig, "fixed:key", 5000);
  const auto second = ask(rig, "fixed:key", 5000);
  rig.fabric.wait_for_owed(1);
  rig.engine->leave(first->ticket);
  rig.engine->leave(second->ticket);
  const auto third = ask(rig, "fixed:key", 5000);
  until_answered(rig, {first, second, third});
  EXPECT_EQ(second->result->kind, Kind::kLeft);
  EXPECT_EQ(third->result->kind, Kind::kMissing) << "a flight of its own, behind the fence";
  EXPECT_TRUE(rig.metric_has("keyferry_fences_total{reason=\"abandoned\"} 1"));
  rig.until_regions("free", Rig::kRegions);
}

TEST(EngineFlights, OneThatAllLeftBeforeItWasWrittenIsForgotten) {
  Rig rig(after_go({pattern(10, 2), pattern(10, 3)}));
  rig.start();
  const auto busy = ask(rig, "busy", 10);
  rig.fabric.wait_for_owed(1);
  const auto queued = ask(rig, "key", 10);
  rig.engine->leave(queued->ticket);
  const auto again = ask(rig, "key", 10);
  transfer::Loan all = rig.lease((Rig::kRegions - 2) * Rig::kRegion);
  const auto leasing = ask(rig, "other", 10);
  rig.engine->leave(leasing->ticket);
  until_answered(rig, {queued, leasing});
  EXPECT_EQ(queued->result->kind, Kind::kLeft);
  EXPECT_EQ(leasing->result->kind, Kind::kLeft);
  EXPECT_EQ(rig.status()["waiting"]["leases"], 0);
  rig.server.go();
  until_answered(rig, {busy, again});
  EXPECT_EQ(again->result->kind, Kind::kValue);
  EXPECT_EQ(gets(rig, "key"), 1U);
  EXPECT_EQ(gets(rig, "other"), 0U);
  EXPECT_EQ(rig.status()["waiting"]["flights"], 0);
}

TEST(EngineFlights, TheWindowIsWholeRegionsSoThatAValueMayGrowALittle) {
  const std::string bytes = pattern(Rig::kRegion + 5, 1);
  Rig rig(after_go({bytes}));
  rig.start();
  const auto asker = ask(rig, "key", Rig::kRegion + 1);
  rig.server.go();
  until_answered(rig, {asker});
  EXPECT_EQ(bytes_of(*asker), bytes);
}

TEST(EngineFlights, AValueThatOutgrewItsLeaseIsToldToAllWhoWait) {
  Rig rig({Rig::lane()
               .hold()
               .answer(say("$-1\r\n"))
               .answer(say("-ERR client address space smaller than object length\r\n"))
               .until_closed()});
  rig.start();
  const auto busy = ask(rig, "busy", 10);
  rig.fabric.wait_for_owed(1);
  const auto first = ask(rig, "key", 10);
  const auto second = ask(rig, "key", 10);
  rig.server.go();
  until_answered(rig, {busy, first, second});
  EXPECT_EQ(busy->result->kind, Kind::kMissing);
  EXPECT_EQ(first->result->kind, Kind::kOutgrown);
  EXPECT_EQ(second->result->kind, Kind::kOutgrown);
  rig.until_regions("free", Rig::kRegions);
}

TEST(EngineFlights, R89AValueWithAWrongChecksumIsGivenToNobody) {
  Rig rig([](ScriptedFabric& fabric) {
    const Script::Answer wrong = [&fabric](const Script::Command& command) {
      write_windows(fabric, windows_of(command, 2), "123456789");
      return std::string("*2\r\n:9\r\n:1\r\n");
    };
    return std::vector<Script>{Rig::lane().answer(wrong).until_closed()};
  });
  rig.start();
  const auto asker = ask(rig, "key", 9);
  until_answered(rig, {asker});
  EXPECT_EQ(asker->result->kind, Kind::kRepeat);
  EXPECT_EQ(asker->result->text, "checksum");
  EXPECT_TRUE(rig.metric_has("keyferry_checksum_mismatch_total{op=\"get\"} 1"));
  rig.until_regions("free", Rig::kRegions);
}

TEST(EngineFlights, WithoutMemoryAllWhoWaitGetTheOneError) {
  Rig rig({Rig::lane().until_closed()},
          [](transfer::EngineOptions& options) { options.pool_wait = std::chrono::milliseconds(20); });
  rig.start();
  transfer::Loan all = rig.lease(Rig::kRegions / 2 * Rig::kRegion);
  transfer::Loan rest = rig.lease(Rig::kRegions / 2 * Rig::kRegion);
  const auto first = ask(rig, "key", 10);
  const auto second = ask(rig, "key", 10);
  until_answered(rig, {first, second});
  EXPECT_EQ(first->result->kind, Kind::kNoRoom);
  EXPECT_EQ(second->result->kind, Kind::kNoRoom);
  EXPECT_FALSE(first->result->text.empty());
  EXPECT_FALSE(first->leased);
}

TEST(EngineFlights, StoppingAnswersThoseWhoWaitBehindAnother) {
  Rig rig({Rig::lane().answer(say("")).until_closed()});
  rig.start();
  const auto first = ask(rig, "key", 10);
  rig.fabric.wait_for_owed(1);
  const auto behind = ask(rig, "key", 10);
  rig.mail.until([&] { return behind->leased; });
  rig.stop();
  until_answered(rig, {first, behind});
  EXPECT_EQ(first->result->kind, Kind::kLost);
  EXPECT_EQ(behind->result->kind, Kind::kRepeat);
  EXPECT_EQ(behind->result->text, "stopping");
  const auto late = ask(rig, "key", 10);
  until_answered(rig, {late});
  EXPECT_EQ(late->result->text, "stopping");
}

}  // namespace
}  // namespace keyferry::test
