#include "upstream/rdma_probe.h"

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>

namespace keyferry::upstream {

base::Result<std::vector<std::string>> verbs_devices() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  if (list == nullptr) {
    const int number = errno;
    return base::Error{std::string("ibv_get_device_list: ") + std::strerror(number), number};
  }
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) names.emplace_back(ibv_get_device_name(list[i]));
  ibv_free_device_list(list);
  return names;
}

}  // namespace keyferry::upstream
