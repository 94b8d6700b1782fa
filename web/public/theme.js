// Runs before the first paint, so that a chosen theme does not flash the other one. A file of its
// own because the content security policy allows no inline script.
{
  let theme = null;
  try {
    theme = localStorage.getItem('theme');
  } catch {
    // Storage can be forbidden; then the system's theme counts.
  }
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
}
