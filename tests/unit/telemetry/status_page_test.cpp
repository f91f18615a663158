#include "telemetry/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace keyferry::telemetry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kSample = R"({
  "version": "0.1.0", "ready": true, "clients": 3, "reason": null,
  "pool": {"size_bytes": 4294967296, "states": {"free_bytes": 1536}},
  "lanes": [{"node": "127.0.0.1:6379", "state": "idle"}, {"node": "[::1]:6379", "state": "in flight", "owed": 2}],
  "interfaces": ["lo", "eth0"], "empty": []})";

TEST(StatusPage, TextAlignsColumnsAndKeepsTheOrder) {
  EXPECT_EQ(status_text(kSample),
            "keyferryd\n"
            "  version     0.1.0\n"
            "  ready       yes\n"
            "  clients     3\n"
            "  reason      -\n"
            "  interfaces  lo, eth0\n"
            "  empty       -\n"
            "\npool\n"
            "  size_bytes  4.00 GiB\n"
            "\nstates\n"
            "  free_bytes  1.50 KiB\n"
            "\nlanes\n"
            "  node            state      owed\n"
            "  127.0.0.1:6379  idle       -\n"
            "  [::1]:6379      in flight  2\n");
}

TEST(StatusPage, HtmlHasATablePerListAndNeedsNothingFromElsewhere) {
  const std::string html = status_html(kSample);
  EXPECT_THAT(html, HasSubstr("<tr><th>node</th><th>state</th><th>owed</th></tr>"));
  EXPECT_THAT(html, HasSubstr("<tr><td>[::1]:6379</td><td>in flight</td><td>2</td></tr>"));
  EXPECT_THAT(html, HasSubstr("<tr><td>size_bytes</td><td>4.00 GiB</td></tr>"));
  for (const char* outside : {"http:", "https:", "src=", "href=", "<script", "@import", "url("})
    EXPECT_THAT(html, Not(HasSubstr(outside)));
}

TEST(StatusPage, NothingInTheJsonBecomesMarkupOrSteersATerminal) {
  constexpr std::string_view kHostile = R"({"<b>&\"": "<script>alert(1)</script>", "list": [{"<i>": "\u001b[2J\n"}]})";
  const std::string html = status_html(kHostile);
  EXPECT_THAT(html, Not(HasSubstr("<script>")));
  EXPECT_THAT(html, Not(HasSubstr("<i>")));
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;&amp;&quot;"));
  EXPECT_THAT(status_text(kHostile), Not(HasSubstr("\x1b")));
  EXPECT_THAT(status_text(kHostile), HasSubstr("?[2J?"));
}

TEST(StatusPage, WhatIsNoObjectIsAnError) {
  for (const char* bad : {"", "{", "[]", "3", "null", "{\"a\":}"}) {
    EXPECT_THROW(status_html(bad), std::runtime_error) << bad;
    EXPECT_THROW(status_text(bad), std::runtime_error) << bad;
  }
}

TEST(StatusPage, VeryDeepJsonIsShownNotFollowed) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "{\"a\":";
  deep += "1";
  deep.append(1000, '}');
  EXPECT_THAT(status_text(deep), HasSubstr("{\"a\":{\"a\":"));
}

}  // namespace
}  // namespace keyferry::telemetry
