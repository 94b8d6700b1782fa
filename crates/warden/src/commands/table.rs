//! Figures in columns, for a terminal.

/// Columns as wide as their widest cell, numbers to the right.
pub(super) fn table<const N: usize>(headings: &[&str; N], rows: &[[String; N]], out: &mut String) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .max()
            .unwrap_or(0)
            .max(headings[column].chars().count())
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut line = |cells: &[&str]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect();
        out.push_str(padded.join("  ").trim_end());
        out.push('\n');
    };
    line(headings);
    for row in rows {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        line(&cells);
    }
}
