#include "gateway/subscriptions.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace keyferry::gateway {
namespace {

std::string push(const std::string& kind, const std::string& channel, int total) {
  return ">3\r\n$" + std::to_string(kind.size()) + "\r\n" + kind + "\r\n$" + std::to_string(channel.size()) + "\r\n" +
         channel + "\r\n:" + std::to_string(total) + "\r\n";
}

Subscriptions::Wanted wanted(std::vector<std::string_view> args) {
  return Subscriptions::wanted_by(args).value();
}

TEST(Subscriptions, ASubscribeIsAnsweredByAPushForEachChannelAndMessagesAreNone) {
  Subscriptions all;
  auto two = wanted({"subscribe", "a", "b"});
  EXPECT_FALSE(all.take(two, push("subscribe", "a", 1)));
  EXPECT_FALSE(all.take(two, push("message", "a", 5)));
  EXPECT_TRUE(all.take(two, push("subscribe", "b", 2)));
  EXPECT_TRUE(all.any());
  EXPECT_FALSE(Subscriptions::wanted_by(std::vector<std::string_view>{"MONITOR"}).has_value());
}

TEST(Subscriptions, AnUnsubscribeWithoutNamesIsAnsweredForAllOfItsKindOrOnceForNone) {
  Subscriptions all;
  auto channels = wanted({"SUBSCRIBE", "a", "b", "a"});
  for (const int total : {1, 2, 2}) all.take(channels, push("subscribe", "x", total));
  auto patterns = wanted({"PSUBSCRIBE", "p*"});
  EXPECT_TRUE(all.take(patterns, push("psubscribe", "p*", 3)));
  auto none = wanted({"SUNSUBSCRIBE"});
  EXPECT_TRUE(all.take(none, push("sunsubscribe", "", 0)));
  auto every = wanted({"UNSUBSCRIBE"});
  EXPECT_FALSE(all.take(every, push("unsubscribe", "a", 2)));
  EXPECT_TRUE(all.take(every, push("unsubscribe", "b", 1)));
  EXPECT_TRUE(all.any());
  auto last = wanted({"PUNSUBSCRIBE"});
  EXPECT_TRUE(all.take(last, push("punsubscribe", "p*", 0)));
  EXPECT_FALSE(all.any());
}

}  // namespace
}  // namespace keyferry::gateway
