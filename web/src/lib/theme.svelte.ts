// Light, dark, or as the system is. `public/theme.js` applies the choice before the first paint.

export type Theme = 'system' | 'light' | 'dark';

const order: Theme[] = ['system', 'light', 'dark'];

class ThemeChoice {
  value = $state<Theme>((document.documentElement.dataset.theme as Theme | undefined) ?? 'system');

  next() {
    this.set(order[(order.indexOf(this.value) + 1) % order.length] ?? 'system');
  }

  set(theme: Theme) {
    this.value = theme;
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem('theme', theme);
    } catch {
      // Storage can be forbidden; then the choice lasts as long as the page.
    }
  }
}

export const theme = new ThemeChoice();
