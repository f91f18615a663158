#pragma once

#include <string>
#include <vector>

namespace keyferry::resp::testing {

/// One whole frame each; together every type of RESP2 and RESP3.
inline const std::vector<std::string>& good_frames() {
  static const std::vector<std::string> all = {
      "+OK\r\n",
      "+\r\n",
      "+a\rb\nc\r\r\n",
      "-ERR no\r\n",
      ":0\r\n",
      ":-9223372036854775808\r\n",
      ":+12\r\n",
      "$5\r\nhello\r\n",
      "$0\r\n\r\n",
      "$4\r\n\r\n\r\n\r\n",
      "$-1\r\n",
      "*-1\r\n",
      "_\r\n",
      "*0\r\n",
      "*3\r\n:1\r\n$1\r\na\r\n*1\r\n+b\r\n",
      "*2\r\n*0\r\n*2\r\n*0\r\n_\r\n",
      "#t\r\n",
      "#f\r\n",
      ",3.25\r\n",
      ",-1e+300\r\n",
      ",inf\r\n",
      ",-inf\r\n",
      ",nan\r\n",
      "(3492890328409238509324850943850943825024385\r\n",
      "(-12345678901234567890\r\n",
      "!21\r\nSYNTAX invalid syntax\r\n",
      "=15\r\ntxt:Some string\r\n",
      "=4\r\nmkd:\r\n",
      "%2\r\n+first\r\n:1\r\n+second\r\n*2\r\n#t\r\n_\r\n",
      "%0\r\n",
      "~3\r\n+a\r\n:1\r\n~0\r\n",
      ">3\r\n+message\r\n$2\r\nch\r\n$3\r\nabc\r\n",
      "|1\r\n+ttl\r\n:3600\r\n$5\r\nvalue\r\n",
      "|0\r\n+OK\r\n",
      "|1\r\n+a\r\n:1\r\n|1\r\n+b\r\n:2\r\n*1\r\n:3\r\n",
      "*2\r\n|1\r\n+ttl\r\n:5\r\n:1\r\n:2\r\n",
      "*1\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
      "|1\r\n+why\r\n+test\r\n>1\r\n+invalidate\r\n",
  };
  return all;
}

/// Each breaks the framing.
inline const std::vector<std::string>& broken_frames() {
  static const std::vector<std::string> all = {
      "x\r\n",
      "\r\n",
      "PONG\r\n",
      "$?\r\n",
      "*?\r\n",
      ";4\r\nabcd\r\n",
      "$-2\r\n",
      "$x\r\n",
      "$\r\n",
      "$1x\r\n",
      "$01\r\na\r\n",
      "$+1\r\na\r\n",
      "$1\ra\r\n",
      "$1\r\nabc",
      "$1\r\na\rb",
      "%-1\r\n",
      "~-1\r\n",
      ">-1\r\n",
      "|-1\r\n",
      "!-1\r\n",
      "=-1\r\n",
      "=3\r\ntxt",
      ":\r\n",
      ":x\r\n",
      ":1\rx",
      "#\r\n",
      "#x\r\n",
      "#tt\r\n",
      ",\r\n",
      ", 1\r\n",
      "_x\r\n",
      "*-2\r\n",
      "$99999999999999999999\r\n",
      "*--1\r\n",
      "*1\r\n.\r\n",
      "%?\r\n",
      "$2199023255552\r\n",
      "*99999999999\r\n",
  };
  return all;
}

}  // namespace keyferry::resp::testing
