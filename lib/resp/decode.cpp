#include "resp/decode.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "resp/integer.h"

namespace keyferry::resp {
namespace {

using Kind = Value::Kind;
using Status = DecodeResult::Status;

constexpr size_t kFormatLength = 3;

bool parse_double(const std::string& text, double& value) {
  const char* first = text.data();
  const char* const last = first + text.size();
  if (first != last && *first == '+') ++first;
  if (first == last || (*first == '-' && text.front() == '+')) return false;
  const auto [end, fault] = std::from_chars(first, last, value);
  // A long double of the server may be beyond a double: it becomes infinite or zero.
  if (fault == std::errc::result_out_of_range && end == last) value = std::strtod(text.c_str(), nullptr);
  return end == last && fault != std::errc::invalid_argument;
}

bool is_big_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Recursive descent over one frame; the depth of the recursion is bounded by DecodeLimits::max_depth.
class Decoder {
 public:
  Decoder(std::string_view bytes, const DecodeLimits& limits) : bytes_(bytes), limits_(limits) {}

  Status element(Value& value, size_t depth);
  size_t position() const { return position_; }
  std::string take_error() { return std::move(error_); }

 private:
  Status fail(const char* text) {
    error_ = text;
    return Status::kError;
  }
  Status element_behind_attributes(char type, Value& value, size_t depth);
  Status line(std::string_view& text);
  Status bulk(char type, std::string_view header, Value& value);
  Status aggregate(char type, std::string_view header, std::vector<Value>& children, Value& value, size_t depth);
  Status scalar(char type, std::string_view text, Value& value);

  std::string_view bytes_;
  const DecodeLimits& limits_;
  size_t position_ = 0;
  uint64_t elements_ = 0;
  std::string error_;
};

Status Decoder::line(std::string_view& text) {
  const size_t end = bytes_.find("\r\n", position_);
  if (end == std::string_view::npos) return Status::kIncomplete;
  text = bytes_.substr(position_, end - position_);
  position_ = end + 2;
  return Status::kOk;
}

Status Decoder::element(Value& value, size_t depth) {
  // A loop, not a recursion: any number of attributes may precede one value.
  while (true) {
    if (position_ == bytes_.size()) return Status::kIncomplete;
    if (++elements_ > limits_.max_elements) return fail("more elements than allowed");
    const char type = bytes_[position_++];
    if (type != '|') return element_behind_attributes(type, value, depth);
    std::string_view header;
    Status status = line(header);
    if (status == Status::kOk) status = aggregate(type, header, value.attributes, value, depth);
    if (status != Status::kOk) return status;
  }
}

Status Decoder::element_behind_attributes(char type, Value& value, size_t depth) {
  constexpr std::string_view kTypes = "+-:,#(_$!=*%~>";
  if (kTypes.find(type) == std::string_view::npos) return fail("unknown type byte");
  std::string_view text;
  if (const Status status = line(text); status != Status::kOk) return status;
  switch (type) {
    case '$':
    case '!':
    case '=':
      return bulk(type, text, value);
    case '*':
    case '%':
    case '~':
    case '>':
      return aggregate(type, text, value.children, value, depth);
    default:
      return scalar(type, text, value);
  }
}

Status Decoder::scalar(char type, std::string_view text, Value& value) {
  value.text = text;
  switch (type) {
    case '+':
      value.kind = Kind::kSimple;
      return Status::kOk;
    case '-':
      value.kind = Kind::kError;
      return Status::kOk;
    case ':': {
      value.kind = Kind::kInteger;
      const auto integer = parse_reply_integer(text);
      if (!integer) return fail("invalid integer");
      value.integer = *integer;
      value.text.clear();
      return Status::kOk;
    }
    case '#':
      value.kind = Kind::kBoolean;
      if (text != "t" && text != "f") return fail("invalid boolean");
      value.boolean = text == "t";
      value.text.clear();
      return Status::kOk;
    case ',':
      value.kind = Kind::kDouble;
      return parse_double(value.text, value.real) ? Status::kOk : fail("invalid double");
    case '(':
      value.kind = Kind::kBigNumber;
      return is_big_number(text) ? Status::kOk : fail("invalid big number");
    default:
      value.kind = Kind::kNull;
      value.null_form = Value::NullForm::kResp3;
      return text.empty() ? Status::kOk : fail("invalid null");
  }
}

Status Decoder::bulk(char type, std::string_view header, Value& value) {
  const auto length = parse_integer(header);
  if (length && *length == -1 && type == '$') {
    value.null_form = Value::NullForm::kBulk;
    return Status::kOk;
  }
  if (!length || *length < 0) return fail("invalid length of a bulk");
  if (static_cast<uint64_t>(*length) > limits_.max_bulk) return fail("a bulk is larger than allowed");
  const auto size = static_cast<size_t>(*length);
  if (type == '=' && size <= kFormatLength) return fail("a verbatim string without its format");
  if (bytes_.size() - position_ < size + 2) return Status::kIncomplete;
  std::string_view text = bytes_.substr(position_, size);
  if (bytes_.substr(position_ + size, 2) != "\r\n") return fail("a bulk does not end with CRLF");
  position_ += size + 2;
  if (type == '=') {
    if (text[kFormatLength] != ':') return fail("a verbatim string without its format");
    value.format = text.substr(0, kFormatLength);
    text.remove_prefix(kFormatLength + 1);
  }
  value.kind = type == '$' ? Kind::kBulk : type == '!' ? Kind::kBlobError : Kind::kVerbatim;
  value.text = text;
  return Status::kOk;
}

Status Decoder::aggregate(char type, std::string_view header, std::vector<Value>& children, Value& value,
                          size_t depth) {
  const auto count = parse_integer(header);
  if (count && *count == -1 && type == '*') {
    value.null_form = Value::NullForm::kArray;
    return Status::kOk;
  }
  if (!count || *count < 0) return fail("invalid number of elements");
  if (static_cast<uint64_t>(*count) > limits_.max_elements) return fail("more elements than allowed");
  if (*count > 0 && depth >= limits_.max_depth) return fail("aggregates are nested deeper than allowed");
  switch (type) {
    case '*':
      value.kind = Kind::kArray;
      break;
    case '%':
      value.kind = Kind::kMap;
      break;
    case '~':
      value.kind = Kind::kSet;
      break;
    case '>':
      value.kind = Kind::kPush;
      break;
    default:
      break;
  }
  const bool pairs = type == '%' || type == '|';
  // Grows with what is there, not with what was announced.
  for (auto left = static_cast<uint64_t>(*count) * (pairs ? 2 : 1); left > 0; --left) {
    if (const Status status = element(children.emplace_back(), depth + 1); status != Status::kOk) return status;
  }
  return Status::kOk;
}

}  // namespace

DecodeResult decode(std::string_view bytes, const DecodeLimits& limits) {
  DecodeResult result;
  Decoder decoder(bytes, limits);
  result.status = decoder.element(result.value, 0);
  if (result.status == Status::kOk) {
    result.consumed = decoder.position();
  } else {
    result.value = {};
    result.error = decoder.take_error();
  }
  return result;
}

}  // namespace keyferry::resp
