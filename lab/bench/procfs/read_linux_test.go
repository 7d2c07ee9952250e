package procfs

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Every reader reads this process.
func TestReadOwnProcess(t *testing.T) {
	pid := os.Getpid()
	memory, err := ReadMemory(pid)
	require.NoError(t, err)
	require.Positive(t, memory.Resident)
	require.Positive(t, memory.Proportional)
	require.GreaterOrEqual(t, memory.Peak, memory.Resident)
	var own unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &own))
	used, err := ReadClock(pid)
	require.NoError(t, err)
	require.GreaterOrEqual(t, used.Nanoseconds(), own.Nano())
	times, err := ReadTimes(pid)
	require.NoError(t, err)
	require.GreaterOrEqual(t, times.Total(), used, "it is not rounded down")
	programs, err := ReadPrograms(pid)
	require.NoError(t, err)
	require.Empty(t, programs)
	activity, err := ReadActivity(pid)
	require.NoError(t, err)
	require.Positive(t, activity.Wakeups)
	all, err := ReadProcesses()
	require.NoError(t, err)
	require.Contains(t, all, pid)
	cpu, err := ReadCPU()
	require.NoError(t, err)
	require.Positive(t, cpu.Idle)
}

func TestReadProcessThatHasEnded(t *testing.T) {
	ended := exec.Command("true")
	require.NoError(t, ended.Run())
	pid := ended.Process.Pid
	_, err := ReadMemory(pid)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = ReadTimes(pid)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = ReadActivity(pid)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = ReadClock(pid)
	require.ErrorContains(t, err, "read the CPU clock of process")
}

func TestReadMachine(t *testing.T) {
	m, err := ReadMachine()
	require.NoError(t, err)
	require.NotEmpty(t, m.Kernel)
	require.NotEmpty(t, m.CPU)
	require.Positive(t, m.Cores)
	require.Positive(t, m.Memory)
}
