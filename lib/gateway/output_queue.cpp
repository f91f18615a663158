#include "gateway/output_queue.h"

#include <algorithm>

#include "resp/writer.h"

namespace keyferry::gateway {

namespace {

// Small replies are gathered in pieces of this size, so that a pipeline leaves in few spans and a written piece gives
// its memory back.
constexpr std::size_t kPieceBytes = 64 * 1024;

}  // namespace

void OutputQueue::append(std::string_view bytes) {
  if (bytes.empty()) return;
  buffered_ += bytes.size();
  appended_ += bytes.size();
  if (!items_.empty()) {
    if (auto* last = std::get_if<Text>(&items_.back());
        last != nullptr && !last->lent && last->bytes.size() + bytes.size() <= kPieceBytes) {
      last->bytes.append(bytes);
      return;
    }
  }
  items_.emplace_back(Text{std::string(bytes)});
}

void OutputQueue::append_value(transfer::SharedValue value) {
  ++values_;
  appended_ += value->length();
  std::string header;
  resp::append_bulk_header(header, value->length());
  append(header);
  items_.emplace_back(Value{std::move(value), base::Clock::steady().now()});
  append("\r\n");
}

std::span<const base::ConstBytes> OutputQueue::gather(std::size_t most_spans, std::size_t most_bytes) {
  spans_.clear();
  std::size_t skip = front_written_;
  for (Item& item : items_) {
    if (spans_.size() >= most_spans) break;
    if (auto* text = std::get_if<Text>(&item)) {
      text->lent = true;
      spans_.push_back(base::as_bytes(std::string_view(text->bytes).substr(skip)));
    } else {
      gather_value(*std::get<Value>(item).value, skip, most_spans);
    }
    skip = 0;
  }
  std::size_t left = most_bytes, kept = 0;
  while (kept < spans_.size() && left != 0) {
    spans_[kept] = spans_[kept].first(std::min(left, spans_[kept].size()));
    left -= spans_[kept++].size();
  }
  spans_.resize(kept);
  return spans_;
}

void OutputQueue::gather_value(const transfer::CheckedValue& value, std::size_t skip, std::size_t most_spans) {
  for (const base::ConstBytes& span : value.spans()) {
    if (spans_.size() >= most_spans) return;
    if (skip >= span.size()) {
      skip -= span.size();
      continue;
    }
    spans_.push_back(span.subspan(skip));
    skip = 0;
  }
}

void OutputQueue::written(std::size_t bytes) {
  written_ += bytes;
  while (bytes != 0) {
    Item& front = items_.front();
    auto* text = std::get_if<Text>(&front);
    const std::size_t size =
        text != nullptr ? text->bytes.size() : static_cast<std::size_t>(std::get<Value>(front).value->length());
    const std::size_t taken = std::min(bytes, size - front_written_);
    front_written_ += taken;
    bytes -= taken;
    if (text != nullptr) buffered_ -= taken;
    if (front_written_ != size) return;
    if (text == nullptr) {
      --values_;
      if (deliver_ != nullptr)
        deliver_->observe(base::seconds(base::Clock::steady().now() - std::get<Value>(front).since));
    }
    front_written_ = 0;
    items_.pop_front();
  }
}

void OutputQueue::fit() {
  if (items_.empty()) std::vector<base::ConstBytes>().swap(spans_);
}

void OutputQueue::clear() {
  items_.clear();
  written_ = appended_;
  front_written_ = buffered_ = values_ = 0;
}

}  // namespace keyferry::gateway
