// Any value, with any bytes in its texts, is written as one sound frame in both protocols; any command is read as it
// was written.

#include "resp/writer.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "resp/decode.h"
#include "resp/reply_scanner.h"
#include "resp/request_parser.h"
#include "tests/fuzz/resp/check.h"

namespace {

using namespace keyferry::resp;
using Kind = Value::Kind;

Value make_value(FuzzedDataProvider& source, int depth) {
  Value value;
  value.kind = static_cast<Kind>(source.ConsumeIntegralInRange<int>(0, static_cast<int>(Kind::kPush)));
  value.null_form = static_cast<Value::NullForm>(source.ConsumeIntegralInRange<int>(0, 2));
  value.boolean = source.ConsumeBool();
  value.integer = source.ConsumeIntegral<int64_t>();
  value.real = source.ConsumeFloatingPoint<double>();
  if (value.kind != Kind::kDouble) value.text = source.ConsumeRandomLengthString(40);
  if (value.kind == Kind::kBigNumber) value.text = std::to_string(value.integer) + "0123456789";
  value.format = source.ConsumeRandomLengthString(4);
  if (depth < 5) {
    for (int i = source.ConsumeIntegralInRange<int>(0, 4); i > 0; --i)
      value.children.push_back(make_value(source, depth + 1));
    for (int i = source.ConsumeIntegralInRange<int>(0, 2); i > 0; --i)
      value.attributes.push_back(make_value(source, depth + 1));
  }
  return value;
}

void check_value(const Value& value, Protocol protocol) {
  std::string out;
  append_value(out, protocol, value);
  const DecodeResult result = decode(out);
  FUZZ_CHECK(result.ok());
  FUZZ_CHECK(result.consumed == out.size());
  ReplyScanner scanner;
  const auto step = scanner.scan(out);
  FUZZ_CHECK(step.event == ReplyScanner::Step::Event::kFrameEnd && step.consumed == out.size());
  std::string again;
  append_value(again, protocol, result.value);
  FUZZ_CHECK(again == out);
  if (protocol == Protocol::kResp3) FUZZ_CHECK(result.value.kind == value.kind);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider source(data, size);
  std::vector<std::string> args(source.ConsumeIntegralInRange<size_t>(1, 8));
  for (std::string& arg : args) arg = source.ConsumeRandomLengthString(60);
  std::string command;
  append_command(command, std::vector<std::string_view>(args.begin(), args.end()));
  RequestParser parser;
  FUZZ_CHECK(parser.parse(command) == RequestParser::Event::kCommand);
  FUZZ_CHECK(parser.size() == command.size());
  const auto read = parser.args(command);
  FUZZ_CHECK(std::vector<std::string>(read.begin(), read.end()) == args);

  const Value value = make_value(source, 0);
  check_value(value, Protocol::kResp2);
  check_value(value, Protocol::kResp3);
  return 0;
}
