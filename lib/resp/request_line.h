#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace keyferry::resp {

/// The header line of a bulk argument whose bytes come in chunks and are not kept: enough of its beginning to read a
/// length, and how long it was. Part of RequestParser; same thread rules.
struct StreamedLine {
  std::array<char, 24> head{};  ///< longer than any 64-bit number with its `$`
  size_t length = 0;            ///< all bytes seen, also those beyond `head`
  bool ended = false;           ///< the CR was seen

  void append(std::string_view bytes);
  std::string_view text() const { return {head.data(), length < head.size() ? length : head.size()}; }
};

/// Where one argument lies: in the input, or in the text that split_inline() wrote.
struct ArgumentRange {
  size_t offset;
  size_t length;
};

/// Splits an inline command by Valkey's quoting rules (R3): blanks separate; "..." knows \n \r \t \b \a \xHH and takes
/// any other escaped byte as it is; '...' knows only \'; a quote may open and close inside an argument. Appends the
/// unquoted arguments to `text` and their places to `arguments`. False: a quote is not closed.
bool split_inline(std::string_view line, std::string& text, std::vector<ArgumentRange>& arguments);

}  // namespace keyferry::resp
