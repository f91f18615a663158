#include "fabric/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/fabric.h>

namespace keyferry::fabric {
namespace {

using testing::HasSubstr;

std::string bytes(std::initializer_list<int> values, std::size_t length) {
  std::string text;
  for (int value : values) text.push_back(static_cast<char>(value));
  text.resize(length);
  return text;
}

const std::string kFour = bytes({2, 0, 0x9b, 0xdd, 127, 0, 0, 1}, 16);
const std::string kSix = bytes({10, 0, 0x9b, 0xdd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 28);

TEST(Address, OneOfTheSameLengthAndFamilyFits) {
  EXPECT_EQ(address_mismatch(bytes({2, 0, 1, 2, 10, 0, 0, 1}, 16), kFour, FI_SOCKADDR_IN), "");
  EXPECT_EQ(address_mismatch(kSix, kSix, FI_SOCKADDR_IN6), "");
  EXPECT_EQ(address_mismatch(std::string(32, 'a'), std::string(32, 'b'), FI_ADDR_EFA), "");
}

TEST(Address, AnotherLengthOrFamilyIsNamed) {
  EXPECT_THAT(address_mismatch(kSix, kFour, FI_SOCKADDR_IN), HasSubstr("28 bytes, this fabric's have 16"));
  EXPECT_THAT(address_mismatch("", kFour, FI_SOCKADDR_IN), HasSubstr("0 bytes"));
  EXPECT_THAT(address_mismatch(bytes({10, 0}, 16), kFour, FI_SOCKADDR_IN),
              HasSubstr("is of IPv6, this fabric's are of IPv4"));
  EXPECT_THAT(address_mismatch(std::string(16, '\xff'), kFour, FI_SOCKADDR_IN), HasSubstr("family 65535"));
}

TEST(Address, AWildcardHostOrPortCanNotBeReached) {
  EXPECT_FALSE(unreachable(kFour, FI_SOCKADDR_IN));
  EXPECT_FALSE(unreachable(kSix, FI_SOCKADDR_IN6));
  EXPECT_TRUE(unreachable(bytes({2, 0, 0x9b, 0xdd}, 16), FI_SOCKADDR_IN));
  EXPECT_TRUE(unreachable(bytes({2, 0, 0, 0, 127, 0, 0, 1}, 16), FI_SOCKADDR_IN));
  EXPECT_TRUE(unreachable(bytes({10, 0, 0x9b, 0xdd}, 28), FI_SOCKADDR_IN6));
  EXPECT_FALSE(unreachable(std::string(32, '\0'), FI_ADDR_EFA));
}

TEST(Address, OnEfaGidAndQueuePairTellEndpointsApart) {
  std::string first(32, 'a');
  std::string second = first;
  second[20] = 'z';
  EXPECT_TRUE(same_endpoint(first, second, FI_ADDR_EFA));
  second[17] = 'z';
  EXPECT_FALSE(same_endpoint(first, second, FI_ADDR_EFA));
  std::string port = kFour;
  port[3] = 1;
  EXPECT_FALSE(same_endpoint(kFour, port, FI_SOCKADDR_IN));
  EXPECT_TRUE(same_endpoint(kFour, kFour, FI_SOCKADDR_IN));
}

}  // namespace
}  // namespace keyferry::fabric
