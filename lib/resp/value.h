#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace keyferry::resp {

/// One decoded RESP2 or RESP3 frame. A plain value: owns all of it, any thread may hold it.
struct Value {
  enum class Kind : uint8_t {
    kNull,       ///< null_form says how it was written
    kSimple,     ///< + text
    kError,      ///< - text
    kInteger,    ///< : integer
    kBulk,       ///< $ text
    kArray,      ///< * children
    kBoolean,    ///< # boolean
    kDouble,     ///< , real; text as received
    kBigNumber,  ///< ( text
    kBlobError,  ///< ! text
    kVerbatim,   ///< = text, format
    kMap,        ///< % children: key, value, key, value, ...
    kSet,        ///< ~ children
    kPush,       ///< > children
  };
  enum class NullForm : uint8_t { kBulk, kArray, kResp3 };

  Kind kind = Kind::kNull;
  NullForm null_form = NullForm::kResp3;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string text;    ///< the bytes of whatever is text on the wire, without type, length and format
  std::string format;  ///< of a verbatim string: three bytes, "txt" or "mkd"
  std::vector<Value> children;
  std::vector<Value> attributes;  ///< what a preceding `|` frame said about it: key, value, key, value, ...

  bool is_null() const { return kind == Kind::kNull; }
  bool is_error() const { return kind == Kind::kError || kind == Kind::kBlobError; }
};

/// Equal in all that the wire says; NaN equals NaN.
bool operator==(const Value& left, const Value& right);

}  // namespace keyferry::resp
