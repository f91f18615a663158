// Where workers run on machines that are none of ours: topologies in hwloc's format.

#include "daemon/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace keyferry::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kTwoNodes = KEYFERRY_TOPOLOGIES "/two_nodes.xml";
const std::vector<unsigned> kAll{0, 1, 2, 3};

Options with(const std::string& workers) {
  return parse_options("workers: 3\nplacement: {workers: \"" + workers + "\"}\n", "test");
}

TEST(Placement, R85_FindsTheNodeOfANicByItsInterfaceAndByItsRdmaDevice) {
  EXPECT_THAT(cpus_near("mlx5_0", kTwoNodes), ElementsAre(2, 3));
  EXPECT_THAT(cpus_near("ens1", kTwoNodes), ElementsAre(2, 3));
  EXPECT_THAT(cpus_near("lo", kTwoNodes), IsEmpty());
  EXPECT_THAT(cpus_near("mlx5_0", "/nowhere.xml"), IsEmpty());
}

TEST(Placement, AutoKeepsAllWorkersOnTheNodeOfTheFirstNicThatIsKnownWithinWhatTheProcessMayUse) {
  const Placement placed = place_workers(with("auto"), {"lo", "ens1"}, kAll, kTwoNodes);
  EXPECT_THAT(placed.workers, ElementsAre(ElementsAre(2, 3), ElementsAre(2, 3), ElementsAre(2, 3)));
  EXPECT_THAT(placed.text, HasSubstr("CPUs 2-3, the NUMA node of ens1"));
  EXPECT_THAT(place_workers(with("auto"), {"ens1"}, {1, 3}, kTwoNodes).workers.front(), ElementsAre(3));
  EXPECT_THAT(place_workers(with("auto"), {"ens1"}, {0, 1}, kTwoNodes).workers, IsEmpty());
  EXPECT_THAT(place_workers(with("auto"), {"lo", ""}, kAll, kTwoNodes).workers, IsEmpty());
}

TEST(Placement, AListGivesEachWorkerACpuForItselfAndBeginsAnewWhereItIsShort) {
  EXPECT_THAT(place_workers(with("2-3"), {}, kAll).workers,
              ElementsAre(ElementsAre(2), ElementsAre(3), ElementsAre(2)));
  EXPECT_THAT(place_workers(with("none"), {"ens1"}, kAll, kTwoNodes).workers, IsEmpty());
}

TEST(Placement, ACpuThatTheProcessMayNotUseIsRefusedWithThoseThatItMay) {
  try {
    place_workers(with("1,9"), {}, kAll);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("names CPU 9, which this process may not use; it has 0-3"));
  }
}

}  // namespace
}  // namespace keyferry::daemon
