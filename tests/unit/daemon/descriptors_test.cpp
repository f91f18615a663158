#include "daemon/descriptors.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

namespace keyferry::daemon {
namespace {

/// The process's limits as they were, in the end.
class DescriptorsTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0); }
  void TearDown() override { ::setrlimit(RLIMIT_NOFILE, &before); }
  static rlim_t soft() {
    rlimit now{};
    ::getrlimit(RLIMIT_NOFILE, &now);
    return now.rlim_cur;
  }
  void lower_soft(rlim_t to) {
    const rlimit lower{to, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  }

  rlimit before{};
};

TEST_F(DescriptorsTest, ALimitThatIsEnoughStaysAsItIs) {
  lower_soft(100);
  EXPECT_EQ(allow_descriptors(100), "");
  EXPECT_EQ(soft(), 100U);
}

TEST_F(DescriptorsTest, ALowerOneIsRaisedToWhatIsNeeded) {
  lower_soft(100);
  EXPECT_EQ(allow_descriptors(200), "");
  EXPECT_EQ(soft(), 200U);
}

TEST_F(DescriptorsTest, WhatNoOneMayHaveIsSaidWithTheFix) {
  lower_soft(100);
  const std::size_t beyond = std::size_t{1} << 40;  // above fs.nr_open, which holds for root too
  EXPECT_THAT(allow_descriptors(beyond), testing::AllOf(testing::HasSubstr("LimitNOFILE=" + std::to_string(beyond)),
                                                        testing::HasSubstr("limits.clients")));
  EXPECT_EQ(soft(), before.rlim_max);
}

TEST_F(DescriptorsTest, EachClientNeedsOne) {
  Options options;
  options.limits.clients = 1000;
  const std::size_t needed = descriptors_needed(options);
  options.limits.clients = 1500;
  EXPECT_EQ(descriptors_needed(options), needed + 500);
}

}  // namespace
}  // namespace keyferry::daemon
