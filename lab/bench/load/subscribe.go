package load

// parallelSessions is how many sessions are set up at a time.
const parallelSessions = 8
