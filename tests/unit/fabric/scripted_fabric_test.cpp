#include "tests/support/scripted_fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/fabric/fabric_harness.h"

namespace keyferry::test {
namespace {

using Kind = ScriptedFabric::Kind;

TEST(ScriptedFabric, AnswersAsARealOneWouldUnlessTold) {
  ScriptedFabric fabric;
  auto endpoint = open_endpoint(fabric);
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(endpoint->address.size(), fabric.traits().address_length);
  EXPECT_TRUE(insert_peers(fabric, endpoint->id, {std::string(16, 'a')}));
  EXPECT_FALSE(insert_peers(fabric, endpoint->id, {"short"}));
  std::vector<std::byte> memory(4096);
  auto registration = register_memory(fabric, memory);
  ASSERT_TRUE(registration);
  EXPECT_EQ(fabric.counters().registered_bytes, 4096U);
  ASSERT_TRUE(fabric.window(registration->rkey, registration->wire_base + 96, 4000));
  EXPECT_EQ(fabric.window(registration->rkey, registration->wire_base + 96, 4000)->data(), memory.data() + 96);
  EXPECT_FALSE(fabric.window(registration->rkey, registration->wire_base + 97, 4000));
  EXPECT_TRUE(close_endpoint(fabric, endpoint->id));
  EXPECT_TRUE(deregister(fabric, registration->id));
  EXPECT_FALSE(fabric.window(registration->rkey, registration->wire_base, 1));
  EXPECT_EQ(fabric.counters().endpoints, 0U);
  EXPECT_EQ(fabric.calls().size(), 6U);
}

TEST(ScriptedFabric, HoldsAnswersUntilTheyAreLetGo) {
  ScriptedFabric fabric;
  fabric.set_answer(Kind::kCloseEndpoint, ScriptedFabric::Answer::kHold);
  auto endpoint = open_endpoint(fabric);
  WaitingExecutor back;
  bool closed = false;
  fabric.close_endpoint(endpoint->id, back, [&](base::Result<void> result) { closed = static_cast<bool>(result); });
  EXPECT_EQ(fabric.held(Kind::kCloseEndpoint), 1U);
  EXPECT_EQ(fabric.release_held(Kind::kCloseEndpoint), 1U);
  back.run_until([&] { return closed; });
}

TEST(ScriptedFabric, FailsAsOftenAsTold) {
  ScriptedFabric fabric;
  fabric.fail_next(Kind::kRegister, "no memory", -12, 2);
  std::vector<std::byte> memory(4096);
  EXPECT_EQ(register_memory(fabric, memory).error().code, -12);
  EXPECT_FALSE(register_memory(fabric, memory));
  EXPECT_TRUE(register_memory(fabric, memory));
}

}  // namespace
}  // namespace keyferry::test
