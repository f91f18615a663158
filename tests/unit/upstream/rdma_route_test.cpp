#include "upstream/rdma_route.h"

#include <gtest/gtest.h>

#include "upstream/rdma_tuning.h"

namespace keyferry::upstream {

namespace {

using std::chrono::seconds;

TEST(RdmaRoute, R66_a_failed_dial_sends_everybody_the_other_way_until_a_probe_finds_it_well) {
  RdmaRoute route(false);
  const base::TimePoint start{};
  EXPECT_TRUE(route.well());
  EXPECT_FALSE(route.claim_probe(start));
  route.failed("nobody listens", start);
  EXPECT_FALSE(route.well());
  EXPECT_EQ(route.state().reason, "nobody listens");
  EXPECT_FALSE(route.claim_probe(start + RdmaRoute::kFirstWait / 2));
  EXPECT_TRUE(route.claim_probe(start + RdmaRoute::kFirstWait));
  EXPECT_FALSE(route.claim_probe(start + RdmaRoute::kFirstWait)) << "one probe at a time";
  route.succeeded();
  EXPECT_TRUE(route.well());
  EXPECT_EQ(route.state().reason, "");
  EXPECT_EQ(route.state().falls, 1U);
}

TEST(RdmaRoute, R66_probes_grow_rarer_up_to_half_a_minute) {
  RdmaRoute route(false);
  base::TimePoint now{};
  base::Duration wait = RdmaRoute::kFirstWait;
  route.failed("down", now);
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(route.claim_probe(now + wait - std::chrono::milliseconds(1)));
    now += wait;
    ASSERT_TRUE(route.claim_probe(now));
    route.failed("down", now);
    wait = std::min(2 * wait, RdmaRoute::kLongestWait);
  }
  EXPECT_EQ(wait, RdmaRoute::kLongestWait);
  EXPECT_EQ(route.state().falls, 1U) << "it fell once and stayed down";
}

TEST(RdmaRoute, dials_that_were_under_way_together_count_once) {
  RdmaRoute route(false);
  const base::TimePoint start{};
  for (int i = 0; i < 8; ++i) route.failed("down", start);
  EXPECT_TRUE(route.claim_probe(start + RdmaRoute::kFirstWait));
}

TEST(RdmaRoute, R60_a_server_version_with_known_faults_gets_no_rdma_until_another_one_is_there) {
  RdmaRoute route(false);
  for (const char* unsaid : {"unknown", "", "9", "9.", "x.1"}) {
    route.server_is(unsaid);
    EXPECT_TRUE(route.well()) << unsaid;
  }
  route.server_is("9.0.3");
  EXPECT_FALSE(route.well());
  EXPECT_NE(route.state().reason.find("Valkey 9.0.3"), std::string::npos);
  route.succeeded();
  EXPECT_FALSE(route.well()) << "it answers, and is faulty all the same";
  EXPECT_FALSE(route.claim_probe(base::TimePoint{} + seconds(100)));
  route.server_is("9.1.2");
  EXPECT_TRUE(route.claim_probe(base::TimePoint{} + seconds(100)));
  route.succeeded();
  EXPECT_TRUE(route.well());
  RdmaRoute strict(true);
  strict.server_is("8.0.1");
  EXPECT_TRUE(strict.well());
}

TEST(RdmaTuning, each_worker_has_a_completion_vector_of_its_own_or_that_of_its_cpu) {
  EXPECT_EQ(completion_vector(0, 2, {}), 2U);
  EXPECT_EQ(completion_vector(0, 2, {4, 5}), 2U) << "those of a NUMA node are shared";
  EXPECT_EQ(completion_vector(0, 2, {7}), 7U);
  EXPECT_EQ(completion_vector(3, 1, {}), 4U);
}

TEST(RdmaRoute, a_strict_one_is_never_probed_as_nothing_else_is_used_meanwhile) {
  RdmaRoute route(true);
  route.failed("down", {});
  EXPECT_FALSE(route.claim_probe(base::TimePoint{} + seconds(100)));
  EXPECT_EQ(route.state().reason, "down");
}

TEST(RdmaRoute, R60_WhatIsWrongWithAVersionIsToldWithoutARoute) {
  EXPECT_NE(RdmaRoute::fault_of("9.0.2").value_or("").find("Valkey 9.0.2"), std::string::npos);
  EXPECT_EQ(RdmaRoute::fault_of("9.1.0"), std::string());
  EXPECT_EQ(RdmaRoute::fault_of("unknown"), std::nullopt);
}

}  // namespace

}  // namespace keyferry::upstream
