// What the headers of a newer GCC take from its C++ library, for that of manylinux_2_28, which is
// GCC 8's. It becomes part of this library, where nobody else sees it.
#include <sstream>

#if defined(__GLIBCXX__) && _GLIBCXX_RELEASE >= 11
#include <exception>
#include <new>

template class std::basic_ostringstream<char>;
template class std::basic_stringstream<char>;

// How a pointer to an exception is copied and destroyed, by functions that both libraries have.
extern "C" {
void copy_exception_ptr(void* to, const void* from) noexcept  //
    __asm__("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void destroy_exception_ptr(void* pointer) noexcept  //
    __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");
}

namespace std {

void __throw_bad_array_new_length() { throw bad_array_new_length(); }

void __exception_ptr::exception_ptr::_M_addref() noexcept {
  void* another;
  copy_exception_ptr(&another, this);
}

void __exception_ptr::exception_ptr::_M_release() noexcept {
  void* last = _M_exception_object;
  _M_exception_object = nullptr;
  destroy_exception_ptr(&last);
}

}  // namespace std
#endif
