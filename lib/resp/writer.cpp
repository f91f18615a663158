#include "resp/writer.h"

#include <array>
#include <charconv>
#include <cmath>

namespace keyferry::resp {
namespace {

using Kind = Value::Kind;

/// Type bytes of one kind of value in each protocol: all that a conversion changes about framing (R12).
struct Form {
  Kind kind;
  char resp2;
  char resp3;
};

constexpr std::array kForms = {
    Form{Kind::kNull, '$', '_'},      Form{Kind::kSimple, '+', '+'},   Form{Kind::kError, '-', '-'},
    Form{Kind::kInteger, ':', ':'},   Form{Kind::kBulk, '$', '$'},     Form{Kind::kArray, '*', '*'},
    Form{Kind::kBoolean, ':', '#'},   Form{Kind::kDouble, '$', ','},   Form{Kind::kBigNumber, '$', '('},
    Form{Kind::kBlobError, '-', '!'}, Form{Kind::kVerbatim, '$', '='}, Form{Kind::kMap, '*', '%'},
    Form{Kind::kSet, '*', '~'},       Form{Kind::kPush, '*', '>'},
};

constexpr bool in_order() {
  for (size_t i = 0; i < kForms.size(); ++i) {
    if (static_cast<size_t>(kForms[i].kind) != i) return false;
  }
  return true;
}
static_assert(in_order() && kForms.size() == static_cast<size_t>(Kind::kPush) + 1, "kForms is indexed by Value::Kind");

char type_byte(Kind kind, Protocol protocol) {
  const Form& form = kForms[static_cast<size_t>(kind)];
  return protocol == Protocol::kResp3 ? form.resp3 : form.resp2;
}

template <typename Number>
void append_number_line(std::string& out, char type, Number number) {
  std::array<char, 24> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  out.push_back(type);
  out.append(text.data(), end);
  out.append("\r\n");
}

void append_line(std::string& out, char type, std::string_view text) {
  out.push_back(type);
  const size_t start = out.size();
  out.append(text);
  for (size_t i = start; i < out.size(); ++i) {
    if (out[i] == '\r' || out[i] == '\n') out[i] = ' ';
  }
  out.append("\r\n");
}

/// Text of any kind: with its length where the protocol has that for this kind, else as a line.
void append_text(std::string& out, Kind kind, Protocol protocol, std::string_view text) {
  const char type = type_byte(kind, protocol);
  if (type != '$' && type != '!') {
    append_line(out, type, text);
    return;
  }
  append_number_line(out, type, text.size());
  out.append(text);
  out.append("\r\n");
}

std::string_view double_text(double value, std::array<char, 32>& buffer) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // Whole numbers in full: the shortest form of 100000 would be 1e+05, which Valkey never sends.
  constexpr double kExact = 9007199254740992.0;
  if (value == std::trunc(value) && std::fabs(value) < kExact && !(value == 0 && std::signbit(value))) {
    return {buffer.data(),
            std::to_chars(buffer.data(), buffer.data() + buffer.size(), static_cast<int64_t>(value)).ptr};
  }
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

/// Exactly as many as the header promised, should a map made by hand have a key without a value.
void append_children(std::string& out, Protocol protocol, const std::vector<Value>& children, size_t count) {
  for (size_t i = 0; i < count; ++i) append_value(out, protocol, children[i]);
}

}  // namespace

void append_simple(std::string& out, std::string_view text) {
  append_line(out, '+', text);
}

void append_error(std::string& out, std::string_view text) {
  append_line(out, '-', text);
}

void append_integer(std::string& out, int64_t value) {
  append_number_line(out, ':', value);
}

void append_bulk_header(std::string& out, uint64_t length) {
  append_number_line(out, '$', length);
}

void append_bulk(std::string& out, std::string_view bytes) {
  append_bulk_header(out, bytes.size());
  out.append(bytes);
  out.append("\r\n");
}

void append_null(std::string& out, Protocol protocol) {
  out.append(protocol == Protocol::kResp3 ? "_\r\n" : "$-1\r\n");
}

void append_null_array(std::string& out, Protocol protocol) {
  out.append(protocol == Protocol::kResp3 ? "_\r\n" : "*-1\r\n");
}

void append_array_header(std::string& out, uint64_t count) {
  append_number_line(out, '*', count);
}

void append_map_header(std::string& out, Protocol protocol, uint64_t pairs) {
  append_number_line(out, type_byte(Kind::kMap, protocol), protocol == Protocol::kResp3 ? pairs : pairs * 2);
}

void append_set_header(std::string& out, Protocol protocol, uint64_t count) {
  append_number_line(out, type_byte(Kind::kSet, protocol), count);
}

void append_push_header(std::string& out, Protocol protocol, uint64_t count) {
  append_number_line(out, type_byte(Kind::kPush, protocol), count);
}

bool append_attribute_header(std::string& out, Protocol protocol, uint64_t pairs) {
  if (protocol == Protocol::kResp2) return false;
  append_number_line(out, '|', pairs);
  return true;
}

void append_boolean(std::string& out, Protocol protocol, bool value) {
  const char type = type_byte(Kind::kBoolean, protocol);
  const bool letter = type == '#';
  append_line(out, type, value ? (letter ? "t" : "1") : (letter ? "f" : "0"));
}

void append_double(std::string& out, Protocol protocol, double value) {
  std::array<char, 32> buffer;
  append_text(out, Kind::kDouble, protocol, double_text(value, buffer));
}

void append_big_number(std::string& out, Protocol protocol, std::string_view digits) {
  append_text(out, Kind::kBigNumber, protocol, digits);
}

void append_verbatim(std::string& out, Protocol protocol, std::string_view format, std::string_view text) {
  constexpr size_t kFormatLength = 3;
  if (protocol == Protocol::kResp2) {
    append_bulk(out, text);
    return;
  }
  append_number_line(out, type_byte(Kind::kVerbatim, protocol), text.size() + kFormatLength + 1);
  out.append(format.size() == kFormatLength ? format : "txt");
  out.push_back(':');
  out.append(text);
  out.append("\r\n");
}

void append_blob_error(std::string& out, Protocol protocol, std::string_view text) {
  append_text(out, Kind::kBlobError, protocol, text);
}

void append_value(std::string& out, Protocol protocol, const Value& value) {
  const size_t attributes = value.attributes.size() / 2;
  if (attributes > 0 && append_attribute_header(out, protocol, attributes)) {
    append_children(out, protocol, value.attributes, attributes * 2);
  }
  size_t count = value.children.size();
  switch (value.kind) {
    case Kind::kNull:
      if (value.null_form == Value::NullForm::kArray) return append_null_array(out, protocol);
      return append_null(out, protocol);
    case Kind::kSimple:
      return append_simple(out, value.text);
    case Kind::kError:
      return append_error(out, value.text);
    case Kind::kInteger:
      return append_integer(out, value.integer);
    case Kind::kBulk:
      return append_bulk(out, value.text);
    case Kind::kBoolean:
      return append_boolean(out, protocol, value.boolean);
    case Kind::kDouble:
      // As received where it was received: the server's long doubles have more digits than a double keeps.
      if (!value.text.empty()) return append_text(out, Kind::kDouble, protocol, value.text);
      return append_double(out, protocol, value.real);
    case Kind::kBigNumber:
      return append_big_number(out, protocol, value.text);
    case Kind::kBlobError:
      return append_blob_error(out, protocol, value.text);
    case Kind::kVerbatim:
      return append_verbatim(out, protocol, value.format, value.text);
    case Kind::kArray:
      append_array_header(out, count);
      break;
    case Kind::kMap:
      count -= count % 2;
      append_map_header(out, protocol, count / 2);
      break;
    case Kind::kSet:
      append_set_header(out, protocol, count);
      break;
    case Kind::kPush:
      append_push_header(out, protocol, count);
      break;
  }
  append_children(out, protocol, value.children, count);
}

void append_command_header(std::string& out, size_t argc) {
  append_number_line(out, '*', argc);
}

void append_command(std::string& out, std::span<const std::string_view> args) {
  append_command_header(out, args.size());
  for (const std::string_view arg : args) append_bulk(out, arg);
}

void append_command(std::string& out, std::initializer_list<std::string_view> args) {
  append_command(out, std::span<const std::string_view>(args.begin(), args.size()));
}

}  // namespace keyferry::resp
