#pragma once

#include <sys/stat.h>

#include <string>

namespace keyferry::base {

/// What tells one state of a file from the next without reading it: time of change, size and inode. A file that can't
/// be looked at has the mark of a missing one. A plain value, no thread rules.
struct FileMark {
  timespec changed{};
  off_t size = -1;
  ino_t inode = 0;

  static FileMark of(const std::string& path) {
    struct stat status {};
    if (path.empty() || ::stat(path.c_str(), &status) != 0) return {};
    return {status.st_mtim, status.st_size, status.st_ino};
  }

  bool operator==(const FileMark& other) const {
    return changed.tv_sec == other.changed.tv_sec && changed.tv_nsec == other.changed.tv_nsec && size == other.size &&
           inode == other.inode;
  }
};

}  // namespace keyferry::base
