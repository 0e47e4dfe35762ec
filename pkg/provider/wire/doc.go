// Package wire is what the model adapters share below their SDKs: one HTTP transport, one reader of server-sent events,
// one builder of assistant messages and one way from a failure to a provider.Error.
//
// Guarantees: a request without a guard, refused by its guard or hook, cancelled, or made a second time under the same
// call never reaches the network; the guard sees the exact bytes that are sent; redirects are not followed and proxies
// come from the configuration only; every status but 2xx and every answer that is no event stream (for a listing: no JSON)
// becomes an error with its status, headers and up to 64 KiB of body; a request for a listing has no body; silence longer than the idle timeout ends the call; a stream that ends
// without its terminal event is an error; no key, header value or body is put into an error's text.
package wire
