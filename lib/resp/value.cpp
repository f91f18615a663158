#include "resp/value.h"

#include <cmath>

namespace keyferry::resp {

bool operator==(const Value& left, const Value& right) {
  if (left.kind != right.kind || left.attributes != right.attributes) return false;
  switch (left.kind) {
    case Value::Kind::kNull:
      return left.null_form == right.null_form;
    case Value::Kind::kBoolean:
      return left.boolean == right.boolean;
    case Value::Kind::kInteger:
      return left.integer == right.integer;
    case Value::Kind::kDouble:
      return left.real == right.real || (std::isnan(left.real) && std::isnan(right.real));
    case Value::Kind::kVerbatim:
      return left.format == right.format && left.text == right.text;
    case Value::Kind::kSimple:
    case Value::Kind::kError:
    case Value::Kind::kBulk:
    case Value::Kind::kBigNumber:
    case Value::Kind::kBlobError:
      return left.text == right.text;
    case Value::Kind::kArray:
    case Value::Kind::kMap:
    case Value::Kind::kSet:
    case Value::Kind::kPush:
      return left.children == right.children;
  }
  return false;
}

}  // namespace keyferry::resp
