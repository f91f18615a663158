#include <algorithm>

#include "base/stream.h"
#include "tests/unit/upstream/harness.h"
#include "upstream/pools.h"

namespace keyferry::upstream {

namespace {

using resp::Protocol;
using testing::HasSubstr;

Script quiet() {
  return Script().handshake().until_closed();
}

// Borrowers by number, in the order in which they were served.
struct Borrowers {
  explicit Borrowers(LendingPool& its_pool) : pool(its_pool) {}

  void borrow(std::size_t number, Protocol protocol = Protocol::kResp2) {
    pool.borrow(protocol, [this, number](base::Result<std::unique_ptr<Connection>> result) {
      order.push_back(number);
      if (result) {
        connections[number] = std::move(result.value());
      } else {
        errors[number] = result.error().message;
      }
    });
    EXPECT_TRUE(order.empty() || order.back() != number) << "served inside borrow()";
  }
  void give_back(std::size_t number) {
    const std::size_t served = order.size();
    pool.give_back(std::move(connections.at(number)));
    connections.erase(number);
    EXPECT_EQ(order.size(), served) << "served inside give_back()";
  }

  LendingPool& pool;
  std::vector<std::size_t> order;
  std::map<std::size_t, std::unique_ptr<Connection>> connections;
  std::map<std::size_t, std::string> errors;
};

class LendingPoolTest : public testing::Test {
 protected:
  void wait_served(const Borrowers& borrowers, std::size_t count) {
    run_until(loop, [&] { return borrowers.order.size() >= count; });
  }
  base::Loop loop;
};

TEST_F(LendingPoolTest, R54ABareConnectionIsMadeForItsBorrowerAndSaysNothingFirst) {
  ScriptedServer server({Script().expect_command({"AUTH", "x"}).send("+OK\r\n").until_closed(), quiet()});
  LendingPool pool(loop, options_for(server), 2);
  std::unique_ptr<Connection> bare;
  pool.borrow_bare([&](auto result) { bare = std::move(result.value()); });
  run_until(loop, [&] { return bare != nullptr; });
  EXPECT_EQ(pool.in_use(), 1u);
  EXPECT_EQ(pool.in_use_by_carrier(), (ByCarrier{1, 0, 0}));
  const std::string login = "*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n";
  std::string answer;
  bare->write({base::as_bytes(login)}, [](std::error_code) {});
  bare->read([&](std::error_code, std::string_view bytes) { answer = bytes; });
  run_until(loop, [&] { return !answer.empty(); });
  EXPECT_EQ(answer, "+OK\r\n");
  bare.reset();
  pool.lost(Carrier::kTcp);
  Borrowers borrowers(pool);
  borrowers.borrow(1);
  wait_served(borrowers, 1);
  EXPECT_EQ(server.accepted(), 2u);
}

TEST_F(LendingPoolTest, R58AnIdleConnectionWithAnOldPasswordIsNotLentAgain) {
  ScriptedServer server({quiet()});
  ConnectOptions options = options_for(server);
  const auto credentials = std::make_shared<Credentials>("first");
  options.credentials = credentials;
  LendingPool pool(loop, options, 2);
  Borrowers borrowers(pool);
  borrowers.borrow(1);
  wait_served(borrowers, 1);
  borrowers.give_back(1);
  borrowers.borrow(2);
  wait_served(borrowers, 2);
  EXPECT_EQ(server.accepted(), 1u);
  credentials->renew("second");
  borrowers.give_back(2);
  borrowers.borrow(3);
  wait_served(borrowers, 3);
  EXPECT_EQ(server.accepted(), 2u);
  EXPECT_EQ(server.commands(1)[0], (Script::Command{"AUTH", "second"}));
  // Nor one that would be reset first.
  credentials->renew("third");
  pool.give_back_after_reset(std::move(borrowers.connections.at(3)));
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(LendingPoolTest, ASharedLimitHasTheOtherPoolGiveWay) {
  ScriptedServer server({quiet()});
  std::size_t room = 1;
  std::size_t asked = 0;
  LendingPool pool(loop, options_for(server),
                   {.most = 4,
                    .limit = "limits.upstream_connections",
                    .shared = {[&] { return room; },
                               [&] {
                                 ++asked;
                                 room = 2;
                                 return true;
                               }}});
  Borrowers borrowers(pool);
  borrowers.borrow(1);
  borrowers.borrow(2);
  wait_served(borrowers, 2);
  EXPECT_EQ(asked, 1u);
  EXPECT_EQ(pool.total(), 2u);
  borrowers.give_back(1);
  EXPECT_TRUE(pool.give_way());
  EXPECT_FALSE(pool.give_way());
  EXPECT_EQ(pool.total(), 1u);
}

TEST_F(LendingPoolTest, R13AConnectionGoesBackToWhatANewOneIsBeforeTheNextBorrower) {
  ScriptedServer server({Script().handshake().handshake().until_closed()});
  LendingPool pool(loop, options_for(server), 1);
  Borrowers borrowers(pool);
  borrowers.borrow(1);
  wait_served(borrowers, 1);
  borrowers.borrow(2);
  pool.give_back_after_reset(std::move(borrowers.connections.at(1)));
  EXPECT_EQ(pool.in_use(), 1u) << "it counts as lent until that has ended";
  wait_served(borrowers, 2);
  EXPECT_EQ(server.accepted(), 1u);
  const auto commands = server.commands(0);
  EXPECT_EQ(std::count(commands.begin(), commands.end(), Script::Command{"RESET"}), 1);
  EXPECT_EQ(std::count(commands.begin(), commands.end(), Script::Command({"CLIENT", "ID"})), 2);
}

TEST_F(LendingPoolTest, R13AConnectionWhoseResetIsRefusedIsReplaced) {
  ScriptedServer server({Script().handshake().serve([](const auto&) { return std::string("-ERR no\r\n"); }), quiet()});
  LendingPool pool(loop, options_for(server), 1);
  Borrowers borrowers(pool);
  borrowers.borrow(1);
  wait_served(borrowers, 1);
  borrowers.borrow(2);
  pool.give_back_after_reset(std::move(borrowers.connections.at(1)));
  wait_served(borrowers, 2);
  EXPECT_TRUE(borrowers.errors.empty());
  EXPECT_EQ(server.accepted(), 2u);
}

TEST_F(LendingPoolTest, ConnectionsAreMadeUpToTheLimitAndBorrowersWaitInOrder) {
  ScriptedServer server({quiet()});
  LendingPool pool(loop, options_for(server), 2);
  Borrowers borrowers(pool);
  for (std::size_t i = 0; i < 5; ++i) borrowers.borrow(i);
  wait_served(borrowers, 2);
  EXPECT_EQ(pool.in_use(), 2u);
  EXPECT_EQ(pool.waiting(), 3u);
  run_ready(loop);
  EXPECT_EQ(server.accepted(), 2u);
  for (std::size_t i = 0; i < 5; ++i) {
    wait_served(borrowers, i + 1);
    borrowers.give_back(borrowers.order[i]);
  }
  EXPECT_EQ(borrowers.order, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(server.accepted(), 2u);
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_EQ(pool.idle(), 2u);
  EXPECT_EQ(pool.idle_by_carrier(), (ByCarrier{2, 0, 0}));
}

TEST_F(LendingPoolTest, TheLimitBoundsBothProtocolsTogetherAndAnIdleOneGivesWay) {
  ScriptedServer server({quiet()});
  LendingPool pool(loop, options_for(server), 1);
  Borrowers borrowers(pool);
  borrowers.borrow(0, Protocol::kResp2);
  wait_served(borrowers, 1);
  borrowers.borrow(1, Protocol::kResp3);
  borrowers.borrow(2, Protocol::kResp2);
  run_ready(loop);
  EXPECT_EQ(server.accepted(), 1u);
  // Not to the one behind, although his protocol fits.
  borrowers.give_back(0);
  wait_served(borrowers, 2);
  EXPECT_EQ(borrowers.order.back(), 1u);
  EXPECT_EQ(borrowers.connections[1]->options().protocol, Protocol::kResp3);
  server.wait_ended(0);
  borrowers.give_back(1);
  wait_served(borrowers, 3);
  EXPECT_EQ(borrowers.connections[2]->options().protocol, Protocol::kResp2);
  EXPECT_EQ(pool.in_use() + pool.idle(), 1u);
}

TEST_F(LendingPoolTest, ABorrowerWaitsNoLongerThanTheTimeLimit) {
  ScriptedServer server({quiet()});
  ConnectOptions options = options_for(server);
  LendingPool pool(loop, options, 1);
  Borrowers borrowers(pool);
  borrowers.borrow(0);
  wait_served(borrowers, 1);

  options.timeout = std::chrono::seconds(1);
  LendingPool hasty(loop, options, 1);
  Borrowers waiting(hasty);
  waiting.borrow(0);
  wait_served(waiting, 1);
  ASSERT_EQ(waiting.errors.count(0), 0u) << waiting.errors[0];
  waiting.borrow(1);
  wait_served(waiting, 2);
  EXPECT_EQ(waiting.errors[1], options.address.text() + ": no bulk connection came free within 1 s (1 of 1 in use)");
  EXPECT_EQ(hasty.waiting(), 0u);
  // He who gave up is not served later.
  waiting.give_back(0);
  run_ready(loop);
  EXPECT_EQ(hasty.idle(), 1u);
}

TEST_F(LendingPoolTest, ALostConnectionMakesRoomForAnother) {
  ScriptedServer server({quiet()});
  LendingPool pool(loop, options_for(server), 1);
  Borrowers borrowers(pool);
  borrowers.borrow(0);
  borrowers.borrow(1);
  wait_served(borrowers, 1);
  borrowers.connections.clear();
  pool.lost(Carrier::kTcp);
  wait_served(borrowers, 2);
  EXPECT_TRUE(borrowers.connections[1]);
  EXPECT_EQ(pool.in_use(), 1u);
  EXPECT_EQ(server.accepted(), 2u);
}

TEST_F(LendingPoolTest, AnIdleConnectionThatTheServerClosedIsNotLent) {
  ScriptedServer server({Script().handshake().hold().close(), quiet()});
  LendingPool pool(loop, options_for(server), 4);
  Borrowers borrowers(pool);
  borrowers.borrow(0);
  wait_served(borrowers, 1);
  borrowers.give_back(0);
  run_ready(loop);
  ASSERT_EQ(pool.idle(), 1u);
  server.go();
  run_until(loop, [&] { return pool.idle() == 0; });
  borrowers.borrow(1);
  wait_served(borrowers, 2);
  EXPECT_EQ(server.accepted(), 2u);
}

TEST_F(LendingPoolTest, AConnectionClosedInTheVeryTurnOfItsLoanIsFoundByTheLoop) {
  ScriptedServer server({Script().handshake().hold().close(), quiet()});
  LendingPool pool(loop, options_for(server), 4);
  Borrowers borrowers(pool);
  borrowers.borrow(0);
  wait_served(borrowers, 1);
  borrowers.give_back(0);
  run_ready(loop);
  server.go();
  server.wait_ended(0);
  // The end lies in the socket, the loop has not looked.
  borrowers.borrow(1);
  wait_served(borrowers, 2);
  bool fine = server.accepted() == 2;
  if (!fine) {
    // The window that is left: then the first read tells.
    std::error_code got;
    borrowers.connections[1]->read([&](std::error_code error, std::string_view) { got = error; });
    run_until(loop, [&] { return static_cast<bool>(got); });
    EXPECT_TRUE(base::is_end_of_stream(got));
  }
}

TEST_F(LendingPoolTest, R13AnIdleConnectionThatTheServerTalksOnIsDropped) {
  ScriptedServer server({Script().handshake().hold().send("+stray\r\n").until_closed()});
  LendingPool pool(loop, options_for(server), 4);
  Borrowers borrowers(pool);
  borrowers.borrow(0);
  wait_served(borrowers, 1);
  borrowers.give_back(0);
  run_ready(loop);
  server.go();
  run_until(loop, [&] { return pool.idle() == 0; });
  server.wait_ended(0);
}

TEST_F(LendingPoolTest, ALentConnectionWorksAfterItHasLainIdle) {
  ScriptedServer server(
      {Script().handshake().serve([](const auto& command) { return "+" + command.back() + "\r\n"; })});
  LendingPool pool(loop, options_for(server), 1);
  Borrowers borrowers(pool);
  for (std::size_t i = 0; i < 3; ++i) {
    borrowers.borrow(i);
    wait_served(borrowers, i + 1);
    std::string command, got;
    resp::append_command(command, {"ECHO", std::to_string(i)});
    borrowers.connections[i]->write({base::as_bytes(command)}, [](std::error_code error) { EXPECT_FALSE(error); });
    borrowers.connections[i]->read([&](std::error_code, std::string_view bytes) { got = bytes; });
    run_until(loop, [&] { return !got.empty(); });
    EXPECT_EQ(got, "+" + std::to_string(i) + "\r\n");
    borrowers.give_back(i);
  }
  EXPECT_EQ(server.accepted(), 1u);
}

TEST_F(LendingPoolTest, AServerThatRefusesFailsAllWhoWaitAtOnce) {
  const Port port(false);
  LendingPool pool(loop, options_for(port.number()), 2);
  Borrowers borrowers(pool);
  for (std::size_t i = 0; i < 5; ++i) borrowers.borrow(i);
  wait_served(borrowers, 5);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_THAT(borrowers.errors[i], HasSubstr("connect: Connection refused"));
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(LendingPoolTest, OneDialThatFailsFailsOneBorrowerWhileOthersCanBeServed) {
  ScriptedServer server({quiet(),
                         Script().answer([](const auto&) { return "-ERR max number of clients reached\r\n"; }).close(),
                         quiet()});
  LendingPool pool(loop, options_for(server), 3);
  Borrowers borrowers(pool);
  borrowers.borrow(0);
  wait_served(borrowers, 1);
  borrowers.borrow(1);
  wait_served(borrowers, 2);
  EXPECT_THAT(borrowers.errors[1], HasSubstr("max number of clients reached"));
  // R39: the next dial waits for the back-off, and succeeds.
  borrowers.borrow(2);
  run_ready(loop);
  EXPECT_EQ(server.accepted(), 2u);
  wait_served(borrowers, 3);
  EXPECT_TRUE(borrowers.connections[2]);
}

TEST_F(LendingPoolTest, DuringTheBackOffAnIdleConnectionIsStillLent) {
  ScriptedServer server({quiet(), Script().close(), Script().close()});
  ConnectOptions options = options_for(server);
  LendingPool pool(loop, options, 3);
  Borrowers borrowers(pool);
  borrowers.borrow(0);
  wait_served(borrowers, 1);
  borrowers.borrow(1);
  wait_served(borrowers, 2);
  ASSERT_EQ(borrowers.errors.count(1), 1u);
  // The first of these two needs a dial and waits; the other needs none.
  borrowers.borrow(2, Protocol::kResp3);
  borrowers.borrow(3, Protocol::kResp2);
  borrowers.give_back(0);
  wait_served(borrowers, 3);
  EXPECT_EQ(borrowers.order.back(), 3u);
}

TEST_F(LendingPoolTest, DestroyedWithBorrowersWaitingItCallsNobody) {
  ScriptedServer server({quiet()});
  auto pool = std::make_unique<LendingPool>(loop, options_for(server), 1);
  Borrowers borrowers(*pool);
  borrowers.borrow(0);
  wait_served(borrowers, 1);
  borrowers.borrow(1);
  run_ready(loop);
  pool.reset();
  run_ready(loop);
  EXPECT_EQ(borrowers.order.size(), 1u);
  EXPECT_TRUE(borrowers.connections[0]) << "what is lent lives on";
}

TEST_F(LendingPoolTest, ABorrowerMayDestroyThePoolWhenServed) {
  const Port port(false);
  auto pool = std::make_unique<LendingPool>(loop, options_for(port.number()), 1);
  int called = 0;
  for (int i = 0; i < 3; ++i) {
    pool->borrow(Protocol::kResp2, [&](base::Result<std::unique_ptr<Connection>>) {
      ++called;
      pool.reset();
    });
  }
  run_until(loop, [&] { return called > 0; });
  run_ready(loop);
  EXPECT_EQ(called, 1);
}

}  // namespace
}  // namespace keyferry::upstream
