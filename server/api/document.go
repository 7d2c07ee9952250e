package api

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/relay"
	"sluice/relay/withdrawn"
)

// object is a JSON object.
type object = map[string]any

// route is a request that the API answers, as it is served and described.
type route struct {
	method, path string
	serve        func(*API, http.ResponseWriter, *http.Request, *query)

	id, summary, text string
	parameters        []parameter
	status            int
	answer            string // what an answer with the status means
	schema            object // of this answer
	refused           map[int]string
}

// parameter is a parameter of a request.
type parameter struct {
	name, text string
	schema     object
	required   bool
	inPath     bool // not in the query
}

// Schemas of values.
var (
	text    = object{"type": "string"}
	number  = object{"type": "integer", "format": "int64", "minimum": 0}
	process = object{"type": "integer", "minimum": 1}
	role    = object{"type": "string", "enum": []relay.Role{relay.Publisher, relay.Subscriber, relay.Upstream}}
	moment  = object{"type": "string", "format": "date-time"}
)

// Parameters that several routes have. filters choose sessions.
var (
	filters = []parameter{
		{name: "subject", schema: text, text: "Sessions to whom a token with this subject has allowed something."},
		{name: "prefix", schema: text,
			text: "Sessions from this IP address, or from addresses with this prefix, such as 192.0.2.0/24."},
		{name: "role", schema: role, text: "Sessions that do this now. Sessions with upstream relays are ended only " +
			"by their id or this role: the relay dials them again."},
	}
	ofProcess = parameter{name: "process", schema: process,
		text: "Ask this process instead, which was replaced and drains."}
)

// routes returns all requests.
func routes() []route {
	return []route{{
		method: "GET", path: "/api/openapi.json", serve: (*API).describe, id: "describe", summary: "This document.",
		status: http.StatusOK, answer: "The document.", schema: object{"type": "object"},
	}, {
		method: "GET", path: "/api/sessions", serve: (*API).list, id: "listSessions",
		summary: "The present sessions, by id.",
		text: "Sessions with publishers, subscribers and upstream relays, and clients of other protocols. Several " +
			"filters choose the sessions to which all of them apply.",
		parameters: slices.Concat([]parameter{
			{name: "after", schema: number, text: "Begin with the first session after this id."},
			{name: "limit", text: "Size of the page.", schema: object{
				"type": "integer", "minimum": 1, "maximum": maxPage, "default": defaultPage,
			}},
		}, filters, []parameter{ofProcess}),
		status: http.StatusOK, answer: "A page of sessions.", schema: refTo("Sessions"),
		refused: map[int]string{http.StatusNotFound: "No such process drains."},
	}, {
		method: "POST", path: "/api/sessions/end", serve: (*API).endSome, id: "endSessions",
		summary: "End the sessions that filters choose.",
		text: "At least one filter is needed. Peers are closed with NO_ERROR and a reason, and may come back: " +
			"withdraw their token to prevent that.",
		parameters: slices.Concat(filters, []parameter{ofProcess}),
		status:     http.StatusOK, answer: "The sessions that were ended. None is no error.", schema: refTo("Ended"),
		refused: map[int]string{http.StatusNotFound: "No such process drains."},
	}, {
		method: "POST", path: "/api/sessions/{id}/end", serve: (*API).endOne, id: "endSession",
		summary: "End a session.",
		parameters: []parameter{{name: "id", inPath: true, required: true, text: "Id of the session.", schema: object{
			"type": "integer", "format": "int64", "minimum": 1,
		}}, ofProcess},
		status: http.StatusOK, answer: "The session was ended.", schema: refTo("Ended"),
		refused: map[int]string{http.StatusNotFound: "There is no such session, or no such process."},
	}, {
		method: "GET", path: "/api/withdrawals", serve: (*API).listWithdrawn, id: "listWithdrawals",
		summary: "The withdrawn tokens.",
		status:  http.StatusOK, answer: "All whose time is not over, by subject.", schema: refTo("Withdrawals"),
	}, {
		method: "POST", path: "/api/withdrawals", serve: (*API).withdraw, id: "withdraw",
		summary: "Withdraw all tokens of a subject.",
		text: "What they have allowed ends at once, and nothing is allowed any more, at this relay and at all nodes " +
			"of its cluster. Sessions that have shown them in SETUP are closed with UNAUTHORIZED. A relay that is " +
			"not in a cluster forgets this when its process ends.",
		parameters: []parameter{
			{name: "subject", required: true, text: "Subject of the tokens, as a session lists it.", schema: object{
				"type": "string", "minLength": 1, "maxLength": withdrawn.MaxSubject,
			}},
			{name: "for", required: true, schema: object{"type": "string", "examples": []string{"24h"}},
				text: "For how long: a duration such as 90m or 24h, from 1s to 8784h (366 days)."},
		},
		status: http.StatusOK, answer: "The tokens are withdrawn.", schema: refTo("Withdrawal"),
		refused: map[int]string{http.StatusConflict: "Too many subjects are withdrawn."},
	}, {
		method: "DELETE", path: "/api/withdrawals", serve: (*API).restore, id: "restore",
		summary:    "Give the tokens of a subject their force again.",
		parameters: []parameter{{name: "subject", required: true, text: "Subject of the tokens.", schema: text}},
		status:     http.StatusOK, answer: "The tokens have their force again.", schema: refTo("Withdrawal"),
		refused: map[int]string{http.StatusNotFound: "The subject is not withdrawn."},
	}, {
		method: "POST", path: "/api/drain", serve: (*API).goAway, id: "drain",
		summary: "Take the relay out of service.", text: "As SIGTERM does.",
		status: http.StatusAccepted, answer: "The relay asks its peers to move (GOAWAY), and ends when they have " +
			"left, at the latest after its --drain.",
		schema: refTo("Draining"),
	}}
}

// names returns the parameters of the query.
func (r *route) names() (names []string) {
	for _, p := range r.parameters {
		if !p.inPath {
			names = append(names, p.name)
		}
	}
	return names
}

// answers are the types of answers, and of what they contain. fields says what each field is.
var answers = map[string]struct {
	of     any
	text   string
	fields map[string]string
}{
	"Sessions": {Sessions{}, "A page of sessions.", map[string]string{
		"sessions": "By id.",
		"next":     "The value of after for the next page. Without it, this page is the last one.",
		"draining": "Ids of processes that were replaced and still have sessions: the parameter process lists these.",
	}},
	"Session": {relay.SessionSummary{}, "A session, or a client of another protocol.", map[string]string{
		"id":        "Counted from 1, by each process of the relay.",
		"remote":    "Address and port of the peer.",
		"transport": "quic, webtransport or rtsp.",
		"upstream":  "URL of the upstream relay, if this relay has dialed it.",
		"path":      "Of the URL that the peer has dialed, without the query.",
		"began":     "When the session began.",
		"subjects": "Of the tokens that have allowed something in the session: the digest of a token in a file, the " +
			"subject and issuer of a signed token, or what the HTTP service answers.",
		"roles":         "What the session does now.",
		"publications":  "Tracks that it publishes.",
		"subscriptions": "Tracks that it is subscribed to.",
	}},
	"Ended": {Ended{}, "The sessions that were ended.", map[string]string{
		"ended":     "Ids of the sessions.",
		"elsewhere": "Sessions of processes that were replaced.",
	}},
	"EndedElsewhere": {EndedElsewhere{}, "Sessions of a process that were ended.", map[string]string{
		"process": "Id of the process.",
		"ended":   "Ids of its sessions.",
	}},
	"Withdrawals": {Withdrawals{}, "Withdrawn tokens.", map[string]string{"withdrawals": "By subject."}},
	"Withdrawal": {withdrawn.Entry{}, "Tokens of a subject.", map[string]string{
		"subject":  "Subject of the tokens.",
		"set":      "When an operator has said so. Of several in a cluster the latest counts.",
		"until":    "When the tokens have their force again.",
		"restored": "They have it already: an operator has restored it.",
	}},
	"Draining": {Draining{}, "The relay goes out of service.", map[string]string{"sessions": "That have to leave."}},
}

func refTo(answer string) object { return object{"$ref": "#/components/schemas/" + answer} }

// everywhere are the statuses with which requests are refused for the same reasons: most of them by what is before the
// API at the admin address.
var everywhere = map[int]struct{ name, text string }{
	http.StatusBadRequest: {"Mistake",
		"A parameter is unknown, missing or wrong; the text says which, and what is allowed."},
	http.StatusUnauthorized: {"NoToken", "The admin token is missing or wrong (--admin-token-file)."},
	http.StatusForbidden: {"Elsewhere", "Without --admin-token-file, only programs of the relay's machine may ask. A " +
		"web page of another site may not."},
	http.StatusRequestEntityTooLarge: {"Body", "The request has a body."},
	http.StatusMisdirectedRequest: {"Host", "The name in the request is not the relay's: it must be an address, " +
		"localhost or a name of --admin-host."},
	http.StatusTooManyRequests:     {"TooOften", "The source has shown too many wrong tokens."},
	http.StatusInternalServerError: {"NoFile", "The relay cannot read its admin token."},
	http.StatusBadGateway: {"Silent",
		"A process that was replaced does not answer. What others have ended has ended."},
}

// otherUser is the reason of StatusForbidden for requests that change something.
const otherUser = "Without --admin-token-file, only root and the relay's user may ask, on the relay's machine. A web " +
	"page of another site may not."

// document returns the description of the API, OpenAPI 3.1.
func document() object {
	paths := make(map[string]object)
	for _, r := range routes() {
		if paths[r.path] == nil {
			paths[r.path] = make(object)
		}
		paths[r.path][strings.ToLower(r.method)] = r.operation()
	}
	responses, schemas := object{"OtherUser": withText(otherUser)}, make(object)
	for _, e := range everywhere {
		responses[e.name] = withText(e.text)
	}
	for name := range answers {
		schemas[name] = schemaOf(name)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "Sluice relay", "version": "1", "description": "What an operator does with a running " +
			"relay. It is served at the relay's --admin address. Without --admin-token-file, only programs of the " +
			"relay's machine get an answer; with it, everybody has to show the token. No request has a body. Fields " +
			"and paths are added; they do not change."},
		"servers":  []object{{"url": "http://127.0.0.1:4480"}},
		"security": []object{{}, {"token": []string{}}},
		"paths":    paths,
		"components": object{
			"securitySchemes": object{"token": object{
				"type": "http", "scheme": "bearer", "description": "The token of --admin-token-file.",
			}},
			"responses": responses,
			"schemas":   schemas,
		},
	}
}

// operation describes the route.
func (r *route) operation() object {
	responses := object{strconv.Itoa(r.status): object{
		"description": r.answer, "content": object{"application/json": object{"schema": r.schema}},
	}}
	asks := slices.Contains(r.names(), ofProcess.name) // another process
	for code, why := range everywhere {
		switch {
		case code == http.StatusBadRequest && r.id == "describe", code == http.StatusBadGateway && !asks:
			continue
		case code == http.StatusForbidden && r.method != http.MethodGet:
			why.name = "OtherUser"
		}
		responses[strconv.Itoa(code)] = object{"$ref": "#/components/responses/" + why.name}
	}
	for code, why := range r.refused {
		responses[strconv.Itoa(code)] = withText(why)
	}
	o := object{"operationId": r.id, "summary": r.summary, "responses": responses}
	if r.text != "" {
		o["description"] = r.text
	}
	var all []object
	for _, p := range r.parameters {
		all = append(all, p.describe())
	}
	if len(all) > 0 {
		o["parameters"] = all
	}
	return o
}

func (p *parameter) describe() object {
	o := object{"name": p.name, "in": "query", "description": p.text, "schema": p.schema}
	if p.inPath {
		o["in"] = "path"
	}
	if p.required {
		o["required"] = true
	}
	return o
}

// withText describes an answer that is text.
func withText(description string) object {
	return object{"description": description, "content": object{"text/plain": object{"schema": text}}}
}

// schemaOf describes an answer by its type.
func schemaOf(answer string) object {
	a, properties, required := answers[answer], make(object), []string(nil)
	for f := range reflect.TypeOf(a.of).Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue // not exported
		}
		property := valueSchema(f.Type)
		property["description"] = a.fields[name]
		properties[name] = property
		if options != "omitempty" {
			required = append(required, name)
		}
	}
	return object{"type": "object", "description": a.text, "properties": properties, "required": required}
}

// valueSchema describes the JSON of a type, which the caller may change.
func valueSchema(t reflect.Type) object {
	for name, a := range answers {
		if reflect.TypeOf(a.of) == t {
			return refTo(name)
		}
	}
	switch {
	case t == reflect.TypeFor[relay.Role]():
		return maps.Clone(role)
	case t == reflect.TypeFor[time.Time]():
		return maps.Clone(moment)
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": valueSchema(t.Elem())}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.String:
		return maps.Clone(text)
	}
	return maps.Clone(number)
}
