// Package cat reads and makes Common Access Tokens for MoQT (draft-ietf-moq-c4m): CBOR Web Tokens (RFC 8392) whose moqt
// claim says what the bearer may do.
//
// A token comes in one of three forms: COSE (a COSE_Sign1 or COSE_Mac0, RFC 9052), the same in base64, or the three
// parts in base64, separated by periods, that the draft's Appendix A has. [Format.Parse] turns all of them into a
// message, which holds the signed bytes. The claims are decoded only after these were verified.
//
// # Claims
//
// The relay checks iss, aud, exp, nbf, moqt and moqt-reval. It knows and ignores sub, iat, cti, catv and catr, which do
// not restrict a token. A token with any other claim whose key is a number is refused, because the claim may be a
// restriction that the relay does not enforce: a network, a location, a number of uses, a proof of possession. So are
// tokens that are composed of several sets of claims.
//
// # Requests
//
// A scope has to allow the message, the namespace and the name of the track. Where the draft leaves something open:
//
//   - PUBLISH_NAMESPACE and SUBSCRIBE_NAMESPACE have no track name, so a scope's match for it is not applied. The
//     namespace of the request is matched as it is, also by a scope that ends the list of fields with nil.
//   - SUBSCRIBE_TRACKS is not in the draft. It needs a scope with SUBSCRIBE_NAMESPACE and SUBSCRIBE that allows all
//     tracks of all namespaces that begin with the prefix.
//   - A REQUEST_UPDATE needs permission for the request that it updates. SETUP needs none: a session alone gives
//     nothing.
package cat
