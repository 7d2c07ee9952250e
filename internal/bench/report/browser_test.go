package report

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/bench/result"
	"sluice/internal/bench/result/resulttest"
)

// useIt shows every chart with every scale, hides the first system, and reads the last values of the first chart with
// the keyboard.
const useIt = `<script>
const errors = [];
addEventListener('error', e => errors.push(e.message));
addEventListener('load', () => {
	document.querySelector('button.system').click();
	const svg = document.querySelector('figure svg');
	for (let i = 0; i < 1000; i++) svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));
	const tip = document.querySelector('.tip').textContent;
	let drawn = 0;
	for (const figure of document.querySelectorAll('figure')) {
		const select = figure.querySelector('select');
		for (const option of select ? select.options : [null]) {
			if (option) {
				select.value = option.value;
				select.dispatchEvent(new Event('change'));
			}
			for (const button of figure.querySelectorAll('.scales button')) button.click();
			if (figure.innerHTML.includes('NaN')) errors.push('NaN in ' + figure.innerHTML);
			drawn++;
		}
	}
	document.title = JSON.stringify({errors, tip, drawn});
});
</script>`

func TestPageInBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs chromium")
	}
	r := resulttest.Sample()
	html, _ := pageOf(t, r)
	path := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(html, "</title>", "</title>"+useIt, 1)), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu",
		"--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+path)
	cmd.WaitDelay = time.Second // for its children
	out, err := cmd.Output()
	require.NoError(t, err)
	title := regexp.MustCompile(`<title>.*?</title>`).FindString(string(out))
	require.Contains(t, title, `{"errors":[],`)
	require.Contains(t, title, `"drawn":`+result.Number(len(view{r}.charts())).String()+`}`)
	require.Contains(t, title, "16 ms", "the highest delay")
	require.Contains(t, title, "100.00 %", "of the system that is not hidden")
	require.NotContains(t, title, "sluice: ", "of the one that is")
}
