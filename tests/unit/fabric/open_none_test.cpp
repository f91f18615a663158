#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "fabric/open.h"

namespace keyferry::fabric {
namespace {

TEST(OpenWithoutLibfabric, SaysHowToBuildItIn) {
  try {
    open_fabric({});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("built without libfabric"));
  }
}

}  // namespace
}  // namespace keyferry::fabric
