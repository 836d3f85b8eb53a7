//! How does a run look as a picture?

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::proxy::Product;
use crate::stats::{Sorted, milliseconds};
use crate::table::Row;

const WIDTH: u32 = 900;
const WEIR: RGBColor = RGBColor(0x1f, 0x6f, 0xb4);
const NGINX: RGBColor = RGBColor(0x8a, 0x8a, 0x8a);
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const SMALL: (&str, u32) = ("sans-serif", 14);
/// So much of a stream fits.
const SHOWN: u32 = 50;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What left each proxy at one rate.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    rate: &'static str,
    interval: Duration,
    weir: Vec<Instant>,
    nginx: Vec<Instant>,
}

impl Stream {
    pub(crate) const fn new(rate: &'static str, interval: Duration) -> Self {
        Self {
            rate,
            interval,
            weir: Vec::new(),
            nginx: Vec::new(),
        }
    }

    pub(crate) fn keep(&mut self, product: Product, departures: &[Instant]) {
        match product {
            Product::Weir => self.weir = departures.to_vec(),
            Product::Nginx => self.nginx = departures.to_vec(),
            Product::HaProxy => (),
        }
    }

    /// From the middle of the run on, some intervals long.
    fn part(departures: &[Instant], span: Duration) -> Vec<f64> {
        let Some(first) = departures.get(departures.len() / 2) else {
            return Vec::new();
        };
        let since = departures
            .iter()
            .map(|at| at.saturating_duration_since(*first));
        let shown = since
            .skip(departures.len() / 2)
            .take_while(|at| *at <= span);
        shown.map(milliseconds).collect()
    }
}

/// Each departure is a stroke: an even stream is an even comb.
pub(crate) fn streams(streams: &[Stream], file: &Path) -> Result<()> {
    const HEIGHT: u32 = 110;
    let rows = u32::try_from(streams.len()).context("count the streams")?;
    let root = SVGBackend::new(file, (WIDTH, HEIGHT * rows + 10)).into_drawing_area();
    draw_streams(&root, streams)
        .and_then(|()| Ok(root.present()?))
        .with_context(|| format!("draw {}", file.display()))
}

fn draw_streams(root: &Area<'_>, streams: &[Stream]) -> Result<()> {
    root.fill(&WHITE)?;
    let areas = root.split_evenly((streams.len(), 1));
    for (area, stream) in areas.iter().zip(streams) {
        let span = stream.interval * SHOWN;
        let mut chart = ChartBuilder::on(area)
            .caption(format!("{}: {SHOWN} intervals", stream.rate), SMALL)
            .margin_right(20)
            .y_label_area_size(60)
            .x_label_area_size(24)
            .build_cartesian_2d(0.0..milliseconds(span), 0.0..2.0)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(INK)
            .y_labels(0)
            .x_desc("ms")
            .draw()?;
        for (departures, low, colour, name) in [
            (&stream.weir, 1.1, WEIR, "weir"),
            (&stream.nginx, 0.1, NGINX, "NGINX"),
        ] {
            let strokes = Stream::part(departures, span).into_iter();
            let strokes = strokes.map(|at| vec![(at, low), (at, low + 0.8)]);
            chart
                .draw_series(strokes.map(|line| PathElement::new(line, colour.stroke_width(1))))?;
            let style = SMALL.into_font().color(&INK);
            let at = chart.backend_coord(&(0.0, low + 0.6));
            area.draw_text(
                name,
                &style,
                (
                    at.0 - area.get_base_pixel().0 - 52,
                    at.1 - area.get_base_pixel().1,
                ),
            )?;
        }
    }
    Ok(())
}

/// Each round's weir/nginx as a dot, each figure's median as a bar: left of the line weir takes
/// less.
pub(crate) fn ratios(rows: &[Row], file: &Path) -> Result<()> {
    const HEIGHT: u32 = 24;
    let rows: Vec<&Row> = rows
        .iter()
        .filter(|row| row.is_cost() && !row.to_nginx().is_empty())
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let count = u32::try_from(rows.len()).context("count the figures")?;
    let root = SVGBackend::new(file, (WIDTH, HEIGHT * count + 90)).into_drawing_area();
    draw_ratios(&root, &rows)
        .and_then(|()| Ok(root.present()?))
        .with_context(|| format!("draw {}", file.display()))
}

fn draw_ratios(root: &Area<'_>, rows: &[&Row]) -> Result<()> {
    root.fill(&WHITE)?;
    let count = rows.len();
    let mut chart = ChartBuilder::on(root)
        .caption("weir / NGINX: each dot a round, each bar a median", SMALL)
        .margin_right(20)
        .y_label_area_size(270)
        .x_label_area_size(40)
        .build_cartesian_2d((0.02..5.0).log_scale(), (0..count).into_segmented())?;
    let figure = |place: &SegmentValue<usize>| {
        let (SegmentValue::CenterOf(place) | SegmentValue::Exact(place)) = place else {
            return String::new();
        };
        // The first stands at the top.
        let row = rows.iter().rev().nth(*place);
        row.map_or(String::new(), |row| row.figure().to_owned())
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(WHITE)
        .axis_style(INK)
        .x_desc("less than NGINX  <  1  <  more")
        .y_labels(count)
        .y_label_formatter(&figure)
        .label_style(SMALL)
        .draw()?;
    let (low, high) = (SegmentValue::Exact(0), SegmentValue::Exact(count));
    let line = PathElement::new(vec![(1.0, low), (1.0, high)], INK.stroke_width(1));
    chart.draw_series([line])?;
    for (place, row) in rows.iter().rev().enumerate() {
        let ratios = row.to_nginx();
        let at = |ratio: f64| (ratio, SegmentValue::CenterOf(place));
        let dots = ratios.iter();
        chart.draw_series(dots.map(|ratio| Circle::new(at(*ratio), 3, WEIR.mix(0.4).filled())))?;
        let median = Sorted::new(ratios).median();
        let bar = EmptyElement::at(at(median)) + Rectangle::new([(-2, -8), (2, 8)], WEIR.filled());
        chart.draw_series([bar])?;
    }
    Ok(())
}
