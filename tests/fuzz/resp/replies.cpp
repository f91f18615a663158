// What servers send: frames end at the same bytes however they are cut (R9), the scanner and the decoder agree, and
// what was decoded can be written in both protocols and read again (R4, R12). Input: one byte that seeds the cuts, then
// the stream.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "resp/decode.h"
#include "resp/reply_scanner.h"
#include "resp/writer.h"
#include "tests/fuzz/resp/check.h"

namespace {

using namespace keyferry::resp;
using Event = ReplyScanner::Step::Event;

struct Frame {
  size_t end;
  char type;
  uint64_t largest;
  bool operator==(const Frame&) const = default;
};

struct Scan {
  std::vector<Frame> frames;
  std::string error;
  bool operator==(const Scan&) const = default;
};

Scan scan(std::string_view input, const std::vector<size_t>& cuts) {
  ReplyScanner scanner;
  Scan result;
  size_t at = 0;
  for (const size_t end : cuts) {
    const auto exact = std::make_unique<char[]>(end - at);
    std::memcpy(exact.get(), input.data() + at, end - at);
    std::string_view chunk(exact.get(), end - at);
    while (!chunk.empty()) {
      const auto step = scanner.scan(chunk);
      at += step.consumed;
      chunk.remove_prefix(step.consumed);
      if (step.event == Event::kNeedMore) FUZZ_CHECK(chunk.empty());
      if (step.event == Event::kFrameEnd) {
        FUZZ_CHECK(scanner.at_frame_start());
        result.frames.push_back({at, scanner.type(), scanner.largest_body()});
      }
      if (step.event == Event::kError) {
        result.error = scanner.error();
        return result;
      }
    }
  }
  return result;
}

void check_round_trip(const Value& value) {
  for (const Protocol protocol : {Protocol::kResp2, Protocol::kResp3}) {
    std::string first;
    append_value(first, protocol, value);
    const DecodeResult again = decode(first);
    FUZZ_CHECK(again.ok());
    FUZZ_CHECK(again.consumed == first.size());
    std::string second;
    append_value(second, protocol, again.value);
    FUZZ_CHECK(first == second);
    const Scan scanned = scan(first, {first.size()});
    FUZZ_CHECK(scanned.error.empty() && scanned.frames.size() == 1 && scanned.frames[0].end == first.size());
    if (protocol == Protocol::kResp2)
      FUZZ_CHECK(std::string_view("+-:$*").find(first.front()) != std::string_view::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::minstd_rand random(data[0] + 1U);
  const size_t stride = 1 + random() % 40;
  std::vector<size_t> cuts;
  for (size_t at = random() % stride; at < input.size(); at += 1 + random() % stride) cuts.push_back(at);
  cuts.push_back(input.size());

  const Scan whole = scan(input, {input.size()});
  FUZZ_CHECK(scan(input, cuts) == whole);

  size_t start = 0;
  for (const Frame& frame : whole.frames) {
    const DecodeResult result = decode(input.substr(start));
    FUZZ_CHECK(result.status != DecodeResult::Status::kIncomplete);
    if (result.ok()) {
      FUZZ_CHECK(result.consumed == frame.end - start);
      FUZZ_CHECK((frame.type == '>') == (result.value.kind == Value::Kind::kPush));
      check_round_trip(result.value);
    }
    start = frame.end;
  }
  FUZZ_CHECK(!decode(input.substr(start)).ok());
  return 0;
}
