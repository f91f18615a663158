#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace keyferry::base {
namespace {

std::string bytes_from(int first, int last) {
  std::string text;
  for (int i = first; i != last; i += first < last ? 1 : -1) text.push_back(static_cast<char>(i));
  return text;
}

TEST(Crc32c, AgreesWithTheVectorsOfTheSpecification) {
  EXPECT_EQ(crc32c(as_bytes("")), 0U);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c(as_bytes("a")), 0xC1D04330U);
  EXPECT_EQ(crc32c(as_bytes(std::string(32, '\0'))), 0x8A9136AAU);
  EXPECT_EQ(crc32c(as_bytes(std::string(32, '\xff'))), 0x62A8AB43U);
  EXPECT_EQ(crc32c(as_bytes(bytes_from(0, 32))), 0x46DD794EU);
  EXPECT_EQ(crc32c(as_bytes(bytes_from(31, -1))), 0x113FDB5CU);
  EXPECT_EQ(crc32c(as_bytes(std::string(1 << 20, '\0'))), 0x14298C12U);
  std::string pattern(1 << 20, '\0');
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<char>((7 * i + 3) % 256);
  EXPECT_EQ(crc32c(as_bytes(pattern)), 0x5274BA12U);
}

TEST(Crc32c, SlicesGiveWhatTheWholeGives) {
  const std::string text = bytes_from(0, 200) + bytes_from(50, 0);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const ConstBytes all = as_bytes(text);
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all)) << cut;
  }
}

TEST(Crc32c, CombiningGivesWhatTheWholeGives) {
  EXPECT_EQ(crc32c_combine(0x7E627E58U, 0x31AA814EU, 5), 0xC99465AAU);
  const std::string text = bytes_from(0, 256) + std::string(5000, 'k') + bytes_from(9, 77);
  for (std::size_t cut = 0; cut <= text.size(); cut += 37) {
    const ConstBytes all = as_bytes(text);
    EXPECT_EQ(crc32c_combine(crc32c(all.first(cut)), crc32c(all.subspan(cut)), all.size() - cut), crc32c(all)) << cut;
  }
}

}  // namespace
}  // namespace keyferry::base
