package report

// TableMemory is the memory of one table of the programs, in bytes.
type TableMemory struct {
	Name     string
	Entries  uint32 // at most
	Now, Max uint64 // memory now, and once it is full
	EachCPU  uint64 // how much of Max it takes for each CPU that the machine may have
}
