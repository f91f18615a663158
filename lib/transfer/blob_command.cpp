#include "transfer/blob_command.h"

#include <array>
#include <charconv>

#include "resp/writer.h"

namespace keyferry::transfer {

namespace {

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  resp::append_bulk(out, {digits.data(), static_cast<std::size_t>(end - digits.data())});
}

void append_windows(std::string& out, std::span<const Window> windows) {
  for (const Window& window : windows) {
    append_number(out, window.rkey);
    append_number(out, window.addr);
    append_number(out, window.length);
  }
}

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

std::optional<std::string> from_hex(std::string_view text) {
  if (text.empty() || text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); at += 2) {
    const int high = hex_digit(text[at]);
    const int low = hex_digit(text[at + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

HelloOutcome unsettled(std::string text) {
  return {HelloOutcome::Kind::kUnsettled, {}, "hello_failed", std::move(text)};
}

HelloOutcome refused(const std::string& text) {
  const KnownError& known = known_error(text);
  if (known.answer == Answer::kUnsettled) return unsettled("the server says " + text);
  return {HelloOutcome::Kind::kRefused, {}, is_unknown(known) ? "hello_refused" : known.reason, text};
}

}  // namespace

std::string hello_command(std::string_view address, const Dialect& dialect) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char byte : address) {
    const auto value = static_cast<unsigned char>(byte);
    hex.push_back(kDigits[value >> 4U]);
    hex.push_back(kDigits[value & 15U]);
  }
  std::string out;
  resp::append_command(out, {dialect.hello, hex});
  return out;
}

std::string set_command(std::string_view key, std::uint64_t total, std::optional<std::uint32_t> crc,
                        std::span<const Window> windows, const Dialect& dialect) {
  std::string out;
  resp::append_command_header(out, 3 + (crc ? 2 : 0) + 3 * windows.size());
  resp::append_bulk(out, dialect.set);
  resp::append_bulk(out, key);
  append_number(out, total);
  if (crc) {
    resp::append_bulk(out, "CRC");
    append_number(out, *crc);
  }
  append_windows(out, windows);
  return out;
}

std::string get_command(std::string_view key, std::span<const Window> windows, const Dialect& dialect) {
  std::string out;
  resp::append_command_header(out, 2 + 3 * windows.size());
  resp::append_bulk(out, dialect.get);
  resp::append_bulk(out, key);
  append_windows(out, windows);
  return out;
}

HelloOutcome parse_hello(const resp::Value& reply) {
  if (reply.is_error()) return refused(reply.text);
  if (reply.kind != resp::Value::Kind::kArray || !reply.attributes.empty()) return unsettled("its reply is no array");
  if (reply.children.empty()) return unsettled("its reply holds no address");
  HelloOutcome outcome{HelloOutcome::Kind::kOpen, {}, "", {}};
  for (const resp::Value& element : reply.children) {
    const bool is_text = element.kind == resp::Value::Kind::kBulk || element.kind == resp::Value::Kind::kSimple;
    std::optional<std::string> address = is_text ? from_hex(element.text) : std::nullopt;
    if (!address) return unsettled("its reply holds something that is no address in hex");
    outcome.addresses.push_back(*std::move(address));
  }
  return outcome;
}

}  // namespace keyferry::transfer
