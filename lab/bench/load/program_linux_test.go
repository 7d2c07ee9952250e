package load

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestProgramsEndWithTheirGenerator kills a generator. The program that it has started closes the pipe that both write
// to.
func TestProgramsEndWithTheirGenerator(t *testing.T) {
	const role = "SLUICE_TEST_STARTS_PROGRAM"
	if os.Getenv(role) != "" {
		g := program{&generator{GeneratorConfig: GeneratorConfig{Program: []string{"sleep", "1000"}}}}
		_, err := g.start(t.Context(), os.Stdout, func(error) {})
		require.NoError(t, err)
		fmt.Println("started")
		select {}
	}
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), role+"=yes")
	cmd.Stdout, cmd.Stderr = write, os.Stderr
	require.NoError(t, cmd.Start())
	require.NoError(t, write.Close())
	require.NoError(t, read.SetReadDeadline(time.Now().Add(time.Minute)))
	output := bufio.NewReader(read)
	line, err := output.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "started\n", line)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	_, err = io.ReadAll(output)
	require.NoError(t, err)
}
