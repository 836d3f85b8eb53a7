//! How does what becomes of them look?

use std::fmt::Write as _;
use std::time::Duration;

use crate::play::{Request, Story};

/// Where the time axis begins and ends.
const SPAN: [Duration; 2] = [Duration::from_secs(40), Duration::from_secs(225)];
const WIDTH: f64 = 760.0;
const RIGHT: f64 = 16.0;

/// Colours that hold on both grounds, and shapes that hold without colours.
const STYLE: &str = "<style>\
svg{--ground:#fff;--ink:#1f2328;--soft:#59636e;--rule:#d1d9e0;--go:#0969da;--wait:#9a6700;--no:#cf222e}\
@media(prefers-color-scheme:dark){svg{--ground:#0d1117;--ink:#f0f6fc;--soft:#9198a1;--rule:#3d444d;\
--go:#58a6ff;--wait:#d29922;--no:#ff7b72}}\
text{font:12px system-ui,sans-serif;fill:var(--soft);paint-order:stroke;stroke:var(--ground);stroke-width:4px}.name{font:600 13px ui-monospace,monospace;fill:var(--ink)}\
.ground{fill:var(--ground)}.rule{stroke:var(--rule)}.minute{stroke:var(--soft);stroke-dasharray:3 3}\
.come{fill:var(--ground);stroke:var(--ink);stroke-width:1.4}.go{fill:var(--go)}.late{fill:var(--wait)}\
.way{stroke:var(--rule)}.waits{stroke:var(--wait);stroke-width:1.2}.no{stroke:var(--no);stroke-width:1.8}\
.span{stroke:var(--soft);fill:none}\
</style>";

struct Picture {
    text: String,
    left: f64,
}

/// One algorithm: who comes above, what becomes of them below.
pub(crate) fn single(story: &Story) -> String {
    let [come, go, refused, axis] = [58.0, 112.0, 158.0, 174.0];
    let title = format!("{}: {}", story.algorithm, told(story));
    let mut picture = Picture::new(axis + 28.0, 84.0, &title);
    picture.text(12.0, 24.0, "name", story.algorithm);
    picture.text(
        200.0,
        24.0,
        "",
        &format!("{} — {}", story.numbers, told(story)),
    );
    picture.axis(40.0, axis);
    for (y, lane) in [(come, "come"), (go, "go"), (refused, "refused")] {
        picture.text(12.0, y + 4.0, "", lane);
    }
    for request in &story.requests {
        picture.way(request, come, go);
    }
    for request in &story.requests {
        picture.come(request, come);
        picture.fate(request, go, refused);
    }
    picture.busiest(story, go + 10.0);
    picture.end()
}

/// All of them below the same arrivals.
pub(crate) fn together(stories: &[Story]) -> String {
    let [come, first, row_height] = [30.0, 68.0, 40.0];
    let rows = stories.iter().zip(0_u32..);
    let rows = rows.map(|(story, row)| (story, first + row_height * f64::from(row)));
    let bottom = rows.clone().last().map_or(first, |(_, y)| y) + 24.0;
    let mut picture = Picture::new(bottom + 28.0, 190.0, "Five algorithms, the same arrivals");
    picture.text(12.0, come + 4.0, "", "requests come");
    picture.axis(16.0, bottom);
    for request in stories.first().map_or(&[][..], |story| &story.requests) {
        picture.come(request, come);
    }
    for (story, y) in rows {
        picture.text(12.0, y + 4.0, "name", story.algorithm);
        picture.line("rule", [12.0, y - 19.0], [WIDTH - RIGHT, y - 19.0]);
        for request in &story.requests {
            picture.fate(request, y - 4.0, y + 9.0);
        }
    }
    picture.end()
}

fn told(story: &Story) -> String {
    let (served, refused) = (story.served(), story.refused());
    let at_once = story
        .requests
        .iter()
        .filter(|one| one.went == Some(one.came));
    match served - at_once.count() {
        0 => format!("{served} go at once, {refused} are refused"),
        waited => format!("{served} go, {waited} of them after a wait, {refused} are refused"),
    }
}

impl Picture {
    fn new(height: f64, left: f64, title: &str) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<title>{title}</title>\n{STYLE}\n\
             <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n"
        );
        Self { text, left }
    }

    fn end(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{element}").expect("a text takes what is written");
    }

    fn x(&self, time: Duration) -> f64 {
        let [from, to] = SPAN.map(|at| at.as_secs_f64());
        let part = (time.as_secs_f64() - from) / (to - from);
        self.left + part * (WIDTH - RIGHT - self.left)
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = text.replace('"', "&quot;");
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
        ));
    }

    fn line(&mut self, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        self.put(format_args!(
            "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>"
        ));
    }

    /// The time axis, with a line up to `top` at each full minute.
    fn axis(&mut self, top: f64, y: f64) {
        self.line("rule", [self.left, y], [WIDTH - RIGHT, y]);
        for seconds in (60..=220).step_by(20) {
            let x = self.x(Duration::from_secs(seconds));
            if seconds % 60 == 0 {
                self.line("minute", [x, top], [x, y + 5.0]);
            } else {
                self.line("rule", [x, y], [x, y + 5.0]);
            }
            let label = format!("{}:{:02}", seconds / 60, seconds % 60);
            self.text(x - 11.0, y + 19.0, "", &label);
        }
    }

    /// The way from one's arrival to its departure.
    fn way(&mut self, request: &Request, come: f64, go: f64) {
        if let Some(went) = request.went {
            let class = if went > request.came { "waits" } else { "way" };
            self.line(class, [self.x(request.came), come], [self.x(went), go]);
        }
    }

    fn come(&mut self, request: &Request, y: f64) {
        let x = self.x(request.came);
        self.put(format_args!(
            "<circle class=\"come\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.8\"/>"
        ));
    }

    /// A dot for who passes, a diamond for who waited, a cross for who is refused.
    fn fate(&mut self, request: &Request, go: f64, refused: f64) {
        match request.went {
            None => {
                let x = self.x(request.came);
                for side in [3.0, -3.0] {
                    self.line("no", [x - 3.0, refused - side], [x + 3.0, refused + side]);
                }
            }
            Some(went) if went > request.came => {
                let x = self.x(went);
                self.put(format_args!(
                    "<path class=\"late\" d=\"M{x:.1} {:.1}l4.2 4.2l-4.2 4.2l-4.2 -4.2z\"/>",
                    go - 4.2
                ));
            }
            Some(went) => {
                let x = self.x(went);
                self.put(format_args!(
                    "<circle class=\"go\" cx=\"{x:.1}\" cy=\"{go:.1}\" r=\"3.2\"/>"
                ));
            }
        }
    }

    /// A bracket below those who go within the busiest minute.
    fn busiest(&mut self, story: &Story, y: f64) {
        let (most, [first, last]) = story.busiest_minute();
        let [first, last] = [first, last].map(|at| self.x(at));
        self.put(format_args!(
            "<path class=\"span\" d=\"M{first:.1} {y:.1}v4H{last:.1}v-4\"/>"
        ));
        self.text(first, y + 18.0, "", &format!("{most} within a minute"));
    }
}
