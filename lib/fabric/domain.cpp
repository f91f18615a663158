#include "fabric/domain.h"

#include <rdma/fi_eq.h>

#include <stdexcept>
#include <utility>

namespace keyferry::fabric {

Domain::Domain(std::shared_ptr<const Library> library, Info info, bool software)
    : library_(std::move(library)), info_(std::move(info)) {
  const std::string where = std::string("keyferry: can't open the fabric domain ") + info_->domain_attr->name + ": ";
  if (const int code = library_->open(info_->fabric_attr, fabric_.receive()); code != 0) {
    throw std::runtime_error(where + library_->error_text("fi_fabric", code));
  }
  if (const int code = fi_domain(fabric_.get(), info_.get(), domain_.receive(), nullptr); code != 0) {
    throw std::runtime_error(where + library_->error_text("fi_domain", code));
  }
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_CONTEXT;
  attributes.wait_obj = software ? FI_WAIT_UNSPEC : FI_WAIT_NONE;
  int code = fi_cq_open(domain_.get(), &attributes, queue_.receive(), nullptr);
  waitable_ = software && code == 0;
  if (code != 0 && software) {
    attributes.wait_obj = FI_WAIT_NONE;
    code = fi_cq_open(domain_.get(), &attributes, queue_.receive(), nullptr);
  }
  if (code != 0) throw std::runtime_error(where + library_->error_text("fi_cq_open", code));
  if (software) accepted_.emplace();
}

Domain::~Domain() {
  if (abandoned_.load(std::memory_order_relaxed)) {
    queue_.release();
    domain_.release();
    fabric_.release();
    return;
  }
  static_cast<void>(queue_.close());
  static_cast<void>(domain_.close());
  static_cast<void>(fabric_.close());
}

}  // namespace keyferry::fabric
