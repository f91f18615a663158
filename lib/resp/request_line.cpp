#include "resp/request_line.h"

#include <algorithm>

namespace keyferry::resp {
namespace {

bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Form feed and vertical tab separate arguments but do not end one: so it is in the server.
bool ends_argument(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char escaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

/// Reads one quoted part; `at` is behind the opening quote and ends behind the closing one. False: it is not closed.
/// An escape counts only if a byte follows it in the line, so that `"a\"` is closed by its last quote, as in Valkey 9.
bool unquote(std::string_view line, size_t& at, char quote, std::string& text) {
  while (at < line.size()) {
    const size_t left = line.size() - at;
    const char c = line[at];
    if (c == quote) {
      ++at;
      return true;
    }
    if (c != '\\') {
      text.push_back(c);
      ++at;
    } else if (quote == '"' && left > 4 && line[at + 1] == 'x' && hex_digit(line[at + 2]) >= 0 &&
               hex_digit(line[at + 3]) >= 0) {
      text.push_back(static_cast<char>(hex_digit(line[at + 2]) * 16 + hex_digit(line[at + 3])));
      at += 4;
    } else if (left > 2 && (quote == '"' || line[at + 1] == '\'')) {
      text.push_back(escaped(line[at + 1]));
      at += 2;
    } else {
      text.push_back(c);
      ++at;
    }
  }
  return false;
}

bool read_argument(std::string_view line, size_t& at, std::string& text) {
  while (at < line.size()) {
    const char c = line[at++];
    if (ends_argument(c)) return true;
    if (c == '"' || c == '\'') {
      if (!unquote(line, at, c, text)) return false;
    } else {
      text.push_back(c);
    }
  }
  return true;
}

}  // namespace

void StreamedLine::append(std::string_view bytes) {
  if (length < head.size()) {
    const size_t room = std::min(bytes.size(), head.size() - length);
    std::copy_n(bytes.data(), room, head.data() + length);
  }
  length += bytes.size();
}

bool split_inline(std::string_view line, std::string& text, std::vector<ArgumentRange>& arguments) {
  size_t at = 0;
  while (true) {
    while (at < line.size() && is_blank(line[at])) ++at;
    if (at == line.size()) return true;
    const size_t start = text.size();
    if (!read_argument(line, at, text)) return false;
    arguments.push_back({start, text.size() - start});
  }
}

}  // namespace keyferry::resp
