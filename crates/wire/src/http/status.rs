//! Status codes that the server sends and the generator counts, with the reason phrases of RFC 9110 section 15.

/// A status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub u16);

/// Defines the named codes, each with its constant and its phrase.
macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal)*) => {
        impl Status {
            $(#[doc = concat!($code, " ", $reason)] pub const $name: Status = Status($code);)*

            /// Returns its reason phrase; empty for a code without a name here, which RFC 9112 section 4 allows.
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }
        }
    };
}

statuses! {
    CONTINUE 100 "Continue"
    SWITCHING_PROTOCOLS 101 "Switching Protocols"
    OK 200 "OK"
    NO_CONTENT 204 "No Content"
    PARTIAL_CONTENT 206 "Partial Content"
    MOVED_PERMANENTLY 301 "Moved Permanently"
    FOUND 302 "Found"
    SEE_OTHER 303 "See Other"
    NOT_MODIFIED 304 "Not Modified"
    TEMPORARY_REDIRECT 307 "Temporary Redirect"
    PERMANENT_REDIRECT 308 "Permanent Redirect"
    BAD_REQUEST 400 "Bad Request"
    UNAUTHORIZED 401 "Unauthorized"
    FORBIDDEN 403 "Forbidden"
    NOT_FOUND 404 "Not Found"
    METHOD_NOT_ALLOWED 405 "Method Not Allowed"
    NOT_ACCEPTABLE 406 "Not Acceptable"
    REQUEST_TIMEOUT 408 "Request Timeout"
    LENGTH_REQUIRED 411 "Length Required"
    PRECONDITION_FAILED 412 "Precondition Failed"
    CONTENT_TOO_LARGE 413 "Content Too Large"
    URI_TOO_LONG 414 "URI Too Long"
    RANGE_NOT_SATISFIABLE 416 "Range Not Satisfiable"
    EXPECTATION_FAILED 417 "Expectation Failed"
    MISDIRECTED_REQUEST 421 "Misdirected Request"
    TOO_MANY_REQUESTS 429 "Too Many Requests"
    REQUEST_HEADER_FIELDS_TOO_LARGE 431 "Request Header Fields Too Large"
    INTERNAL_SERVER_ERROR 500 "Internal Server Error"
    NOT_IMPLEMENTED 501 "Not Implemented"
    BAD_GATEWAY 502 "Bad Gateway"
    SERVICE_UNAVAILABLE 503 "Service Unavailable"
    GATEWAY_TIMEOUT 504 "Gateway Timeout"
    HTTP_VERSION_NOT_SUPPORTED 505 "HTTP Version Not Supported"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_without_a_name_has_no_phrase() {
        assert_eq!(Status::NOT_FOUND.reason(), "Not Found");
        assert_eq!(Status(299).reason(), "");
    }
}
