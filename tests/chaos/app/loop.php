<?php
// A stand-in for a library that keeps its event loop in a static property, which each request has separately.
namespace Revolt;

final class EventLoop
{
    public static ?object $driver = null;
}
