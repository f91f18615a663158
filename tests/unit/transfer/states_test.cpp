#include "transfer/states.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace keyferry::transfer {
namespace {

template <typename Rules>
std::set<std::string> allowed(std::size_t states) {
  std::set<std::string> found;
  for (std::size_t from = 0; from < states; ++from) {
    for (std::size_t to = 0; to < states; ++to) {
      const auto a = static_cast<typename Rules::State>(from);
      const auto b = static_cast<typename Rules::State>(to);
      if (Rules::allowed(a, b)) found.insert(std::string(Rules::name(a)) + ">" + Rules::name(b));
    }
  }
  return found;
}

TEST(States, R88ALaneThatIsFencedOnlyCloses) {
  EXPECT_EQ(allowed<LaneRules>(kLaneStates),
            (std::set<std::string>{"connecting>hello", "connecting>draining", "hello>idle", "hello>draining",
                                   "idle>busy", "idle>draining", "idle>checking", "checking>idle", "checking>draining",
                                   "busy>idle", "busy>draining", "busy>fenced", "draining>closed", "fenced>closed"}));
}

TEST(States, ATransferEndsOnceAndIsWrittenAgainOnlyAfterAReply) {
  EXPECT_EQ(allowed<TransferRules>(5),
            (std::set<std::string>{"queued>posted", "queued>ended", "posted>answered", "posted>fenced",
                                   "answered>ended", "answered>fenced", "answered>posted"}));
}

TEST(States, AnIllegalTransitionChangesNothingAndIsCounted) {
#ifdef KEYFERRY_DEBUG
  EXPECT_DEATH(StateMachine<LaneRules>(LaneState::kFenced).move(LaneState::kIdle), "");
#else
  StateMachine<LaneRules> machine(LaneState::kFenced);
  const std::uint64_t before = illegal_transitions();
  EXPECT_FALSE(machine.move(LaneState::kIdle));
  EXPECT_EQ(machine.state(), LaneState::kFenced);
  EXPECT_EQ(illegal_transitions(), before + 1);
#endif
}

}  // namespace
}  // namespace keyferry::transfer
