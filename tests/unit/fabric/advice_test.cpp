#include "fabric/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyferry::fabric {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Advice, R72NumbersForShortLockedMemoryBecomeAdvice) {
  for (const int code : {-12, 12, -4112, 4112}) {
    EXPECT_THAT(
        registration_advice(code, 4U << 20U),
        AllOf(HasSubstr("RLIMIT_MEMLOCK"), HasSubstr("LimitMEMLOCK=infinity"), HasSubstr("4 MiB are registered")));
    EXPECT_THAT(endpoint_advice(code), HasSubstr("RLIMIT_MEMLOCK"));
  }
}

TEST(Advice, R91UnmappedMemoryIsExplained) {
  EXPECT_THAT(registration_advice(-14, 0), HasSubstr("not mapped for reading and writing"));
}

TEST(Advice, OtherNumbersGetNone) {
  EXPECT_EQ(registration_advice(-22, 0), "");
  EXPECT_EQ(endpoint_advice(-22), "");
  EXPECT_THAT(endpoint_advice(-24), HasSubstr("LimitNOFILE"));
}

}  // namespace
}  // namespace keyferry::fabric
